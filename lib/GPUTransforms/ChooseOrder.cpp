//===- ChooseOrder.cpp - fa2gpu-choose-order ------------------------------===//

#include "Decided.h"
#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Loops/LoopGraph.h"
#include "fa2/Target/Target.h"

namespace fa2 {
#define GEN_PASS_DEF_CHOOSEORDER
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

/// Registers of a thread beside its tiles: addresses, numbers, rows' sums. So
/// many that what the search takes fits where ptxas was seen to fit it.
static constexpr int64_t kSpareRegisters = 24;

/// The most registers that values take when the loop stands in that order.
static int64_t registersOf(scf::ForOp loop, const Order &order,
                           const Rates &rates) {
  auto copy = cast<scf::ForOp>(OpBuilder(loop).clone(*loop));
  LoopGraph graph = graphOf(copy, rates, kSpareRegisters);
  modulo::Times times = timesOf(graph, stagesOf(copy, order));
  copy.erase();
  return modulo::registersOf(graph.graph, times);
}

namespace {
struct ChooseOrderPass : public fa2::impl::ChooseOrderBase<ChooseOrderPass> {
  void runOnOperation() override {
    ScheduleAttr schedule = getOperation().getSchedule();
    bool derived = schedule.getLoopOrder() == LoopOrder::Derived;
    Order table = orderOf(schedule);
    if (!derived && table.products.empty())
      return;
    bool multiplies = false, found = false;
    WalkResult result = getOperation().walk([&](scf::ForOp loop) {
      Order order = derived ? Order() : partOf(table, loop);
      multiplies |= !loop.getBody()->getOps<DotStartOp>().empty();
      if (derived ? productsOf(loop).size() < 2 : !isOrder(order))
        return WalkResult::advance();
      found = true;
      if (derived && failed(derive(loop, schedule, order)))
        return WalkResult::interrupt();
      if (order.products.empty())
        return WalkResult::advance();
      loop->setAttr(kOrderName, OrderAttr::get(&getContext(), order.text(),
                                               int64_t(order.inFlight)));
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    if (derived || found || !multiplies)
      return;
    getOperation().emitError(
        "expected a loop with two of the products \"" + table.text() +
        "\" that the schedule's order names, and asynchronous ones");
    signalPassFailure();
  }

  /// Whether it says anything of a loop: of products that are all behind, none
  /// is behind another.
  static bool isOrder(const Order &order) {
    return order.products.size() > 1 &&
           !llvm::all_of(order.products,
                         [](const Product &p) { return p.behind; });
  }

  /// Other products are other roles' matter.
  static Order partOf(const Order &table, scf::ForOp loop) {
    Products names = productsOf(loop);
    Order part = table;
    llvm::erase_if(part.products,
                   [&](const Product &p) { return !names.contains(p.name); });
    llvm::erase_if(part.begunEarly, [&](const std::string &name) {
      return llvm::none_of(names.lookup(name), beginningOf);
    });
    return part;
  }

  static LogicalResult derive(scf::ForOp loop, ScheduleAttr schedule,
                              Order &order) {
    std::string error;
    const Target *target = lookupTarget(schedule.getTarget(), error);
    if (!target)
      return loop.emitError(error);
    Rates rates = ratesOf(*target);
    LoopGraph graph = graphOf(loop, rates, kSpareRegisters);
    // What the loop takes beyond the schedule, whose every step is where it
    // should be, is taken off its registers.
    int64_t most = graph.graph.registers, taken = 0;
    do {
      graph.graph.registers -= taken;
      std::optional<modulo::Times> times = modulo::search(graph.graph, error);
      if (!times) {
        order = {};
        decided(loop, "fa2gpu-choose-order", "as-written",
                "the loop stays as it is written: {0}", error);
        return success();
      }
      order = orderOf(graph, *times);
      taken = registersOf(loop, order, rates) - most;
    } while (taken > 0);
    return success();
  }
};
} // namespace
