//===- LoopGraph.cpp - a loop's operations as a graph to schedule ---------===//

#include "fa2/Loops/LoopGraph.h"
#include "Work.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using modulo::Edge;
using modulo::Resource;

namespace {

bool inRegisters(Value v) {
  return isa<InFlightType>(v.getType()) || registersOf(v.getType()) > 0;
}

class GraphBuilder {
public:
  GraphBuilder(scf::ForOp loop, const Rates &rates)
      : loop(loop), block(*loop.getBody()), rates(rates) {
    result.matmulLatency = int64_t(rates.matmulLatency);
  }

  LoopGraph build(int64_t spare) {
    for (Operation &op : block.without_terminator())
      addStep(&op);
    for (Operation &op : block.without_terminator())
      addEdges(&op);
    addParts();
    for (Operation &op : block.without_terminator())
      for (Value v : op.getResults())
        addValue(v);
    result.graph.registers -= carried() + fromOutside() + spare;
    if (auto roles = loop->getParentOfType<RolesOp>()) {
      unsigned role = roles.getRoleOf(loop);
      result.groups =
          std::max<int64_t>(roles.getWarps()[role] / kGroupWarps, 1);
      result.graph.registers += roles.getRegisters()[role];
    } else {
      result.graph.registers = INT64_MAX; // nobody says how many
    }
    contract(result);
    return std::move(result);
  }

private:
  //===--------------------------------------------------------------------===//
  // Steps and what they wait for
  //===--------------------------------------------------------------------===//

  void addStep(Operation *op) {
    Work work = workOf(op, rates);
    auto dot = dyn_cast<DotStartOp>(op);
    StringRef name =
        dot && dot.getName() ? *dot.getName() : op->getName().stripDialect();
    steps[op] = int(result.operations.size());
    result.operations.push_back(op);
    result.graph.steps.push_back(
        {name.str(), work.resource, work.clocks, /*stage=*/-1});
  }

  int stepOf(Operation *op) {
    op = op ? block.findAncestorOpInBlock(*op) : nullptr;
    auto found = steps.find(op);
    return found == steps.end() ? -1 : found->second;
  }

  void add(Operation *from, Operation *to, int64_t distance = 0,
           bool oneStage = false, int64_t latency = 0, bool waits = false) {
    int a = stepOf(from), b = stepOf(to);
    if (a >= 0 && b >= 0 && (a != b || distance > 0))
      result.graph.edges.push_back({a, b, latency, distance, oneStage, waits});
  }

  void addEdges(Operation *op) {
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands()) {
        // The loop is cut before products.
        add(v.getDefiningOp(), op, 0, inRegisters(v) && !isa<DotStartOp>(op),
            isa<DotWaitOp>(op) ? int64_t(rates.matmulLatency) : 0);
        if (auto arg = dyn_cast<BlockArgument>(v);
            arg && arg.getOwner() == &block)
          if (OpOperand *yielded = loop.getTiedLoopYieldedValue(arg))
            add(yielded->get().getDefiningOp(), op, 1);
      }
    });
    if (auto dot = dyn_cast<DotStartOp>(op))
      addRegisters(dot);
    else if (isa<RingWaitOp, RingAcquireOp, RingCommitOp, RingReleaseOp>(op))
      addRing(op);
  }

  /// Registers that a product reads while it runs: others read them before, and
  /// they are written again behind it.
  void addRegisters(DotStartOp dot) {
    if (!inRegisters(dot.getA()))
      return;
    Value registers = dot.getA();
    if (auto renamed = registers.getDefiningOp<ConvertLayoutOp>())
      registers = renamed.getSource();
    add(dot, registers.getDefiningOp(), 1);
    for (Operation *reader : registers.getUsers())
      if (!isa<DotStartOp, ConvertLayoutOp>(reader))
        add(reader, dot);
  }

  /// What reads or writes a slot does so while it is held. Who fills a ring
  /// and reads it himself waits for a slot to be free; where others fill it,
  /// the tile as many uses on comes when this one has been released.
  void addRing(Operation *op) {
    Value ring = op->getOperand(0);
    // What was copied to another block has been read when that gives a slot.
    if (isa<RingAcquireOp>(op))
      for (Value peer : sentInto(ring))
        for (Operation *other : peer.getUsers())
          if (isa<RingAcquireOp>(other))
            add(other, op);
    for (Operation *other : ring.getUsers()) {
      if (other->getBlock() != &block || other == op)
        continue;
      bool same = other->getOperand(1) == op->getOperand(1);
      if (isa<RingReleaseOp>(op) && isa<RingWaitOp>(other) && same)
        for (Operation *reader : other->getResult(0).getUsers())
          add(reader, op);
      if (isa<RingCommitOp>(op) && isa<RingAcquireOp>(other) && same)
        for (Operation *writer : other->getResult(0).getUsers())
          add(writer, op);
      if (isa<RingWaitOp>(op) && isa<RingCommitOp>(other))
        add(other, op, 0, false, isPeer(ring) ? int64_t(rates.copyLatency) : 0,
            isPeer(ring));
      int64_t slots = cast<RingType>(ring.getType()).getSlots();
      if (isa<RingAcquireOp>(op) && isa<RingReleaseOp>(other))
        add(other, op, slots);
      if (isa<RingWaitOp>(op) && isa<RingReleaseOp>(other) && isCopied(ring))
        add(other, op, slots, false, int64_t(rates.copyLatency));
    }
  }

  /// Parts of a product follow each other, with what becomes of each.
  void addParts() {
    llvm::MapVector<StringRef, DotStartOp> last;
    for (auto dot : block.getOps<DotStartOp>()) {
      if (!dot.getName())
        continue;
      DotStartOp &before = last[*dot.getName()];
      if (before) {
        add(before, dot, 0, /*oneStage=*/true);
        for (Operation *end : before.getD().getUsers())
          for (Operation *user : end->getUsers())
            add(user, dot);
      }
      before = dot;
    }
  }

  //===--------------------------------------------------------------------===//
  // Registers
  //===--------------------------------------------------------------------===//

  /// Whose registers a value has: of what is renamed, masked, rescaled or added
  /// to in place.
  Value rootOf(Value v) {
    Operation *op = v.getDefiningOp();
    Value of;
    if (auto wait = dyn_cast_or_null<DotWaitOp>(op))
      of = wait.getSource();
    else if (auto convert = dyn_cast_or_null<ConvertLayoutOp>(op))
      of = convert.getSource();
    else if (auto mask = dyn_cast_or_null<ApplyMaskOp>(op))
      of = mask.getScores();
    else if (auto scale = dyn_cast_or_null<ScaleRowsOp>(op))
      of = scale.getTile();
    else if (auto dot = dyn_cast_or_null<DotStartOp>(op))
      of = dot.getAcc();
    return of ? rootOf(of) : v;
  }

  void addValue(Value v) {
    if (!inRegisters(v) || rootOf(v) != v ||
        !(isOfProduct(v) || isAccumulator(v)))
      return;
    modulo::Value value{result.graph.steps[steps[v.getDefiningOp()]].name,
                        steps[v.getDefiningOp()],
                        registersOf(v.getType()),
                        {}};
    addUses(v, 0, value);
    result.graph.values.push_back(std::move(value));
  }

  /// Whether it is made of a product's result. What is not is brought element
  /// by element, when it is asked for.
  bool isOfProduct(Value v) {
    Operation *op = v.getDefiningOp();
    return op && op->getBlock() == &block &&
           (isa<DotStartOp>(op) ||
            llvm::any_of(op->getOperands(), [&](Value o) {
              return inRegisters(o) && isOfProduct(o);
            }));
  }

  bool isAccumulator(Value v) {
    return llvm::any_of(v.getUsers(), [&](Operation *user) {
      auto dot = dyn_cast<DotStartOp>(user);
      return dot && dot.getAcc() == v;
    });
  }

  /// All uses of what has the registers of `v`.
  void addUses(Value v, int64_t distance, modulo::Value &value) {
    for (OpOperand &use : v.getUses()) {
      Operation *user = use.getOwner();
      if (user == block.getTerminator()) {
        if (distance == 0)
          addUses(loop.getRegionIterArg(use.getOperandNumber()), 1, value);
        continue;
      }
      int step = stepOf(user);
      if (step < 0)
        continue;
      bool same = llvm::any_of(user->getResults(),
                               [&](Value r) { return isRenamed(r, v); });
      if (same)
        for (Value r : user->getResults())
          addUses(r, distance, value);
      value.uses.push_back({step, distance, isa<DotStartOp>(user)});
    }
  }

  bool isRenamed(Value result, Value v) {
    return rootOf(result) != result && rootOf(result) == rootOf(v) &&
           inRegisters(result);
  }

  /// Sums that go around the loop in place.
  int64_t carried() {
    int64_t registers = 0;
    for (auto [arg, yielded] :
         llvm::zip(loop.getRegionIterArgs(), loop.getYieldedValues()))
      if (rootOf(yielded) == arg)
        registers += registersOf(arg.getType());
    return registers;
  }

  /// Tiles that are there before the loop.
  int64_t fromOutside() {
    llvm::SmallSetVector<Value, 4> values;
    loop.walk([&](Operation *op) {
      for (Value v : op->getOperands())
        if (loop.isDefinedOutsideOfLoop(v) && op != loop && inRegisters(v) &&
            !v.getDefiningOp<arith::ConstantOp>())
          values.insert(v);
    });
    int64_t registers = 0;
    for (Value v : values)
      registers += registersOf(v.getType());
    return registers;
  }

  scf::ForOp loop;
  Block &block;
  const Rates &rates;
  LoopGraph result;
  llvm::DenseMap<Operation *, int> steps;
};

} // namespace

LoopGraph fa2::gpu::graphOf(scf::ForOp loop, const Rates &rates,
                            int64_t spare) {
  return GraphBuilder(loop, rates).build(spare);
}

int64_t LoopGraph::busy(Resource resource) const {
  int64_t clocks = 0;
  for (const modulo::Step &step : graph.steps)
    if (step.resource == resource)
      clocks += step.clocks * groups;
  return clocks;
}
