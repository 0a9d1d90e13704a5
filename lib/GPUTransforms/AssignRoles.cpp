//===- AssignRoles.cpp - fa2gpu-assign-roles ------------------------------===//
//
// Tiles in registers that become each other, by an operation or around a loop,
// are of one role: equivalence classes, each with the role that one of its
// operations names.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/Dialect/FA2GPU/Roles.h"

#include "fa2/GPUTransforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace fa2 {
#define GEN_PASS_DEF_ASSIGNROLES
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct AssignRolesPass : public fa2::impl::AssignRolesBase<AssignRolesPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    classes = {}; // a pass goes through one kernel after the other
    roles.clear();
    FailureOr<PlanAttr> made = planOf(kernel);
    if (failed(made))
      return signalPassFailure();
    plan = *made;
    if (!plan.hasRoles())
      return;
    kernel.walk([&](Operation *op) { connect(op); });
    if (failed(findRoles()))
      return signalPassFailure();
    kernel.walk([&](Operation *op) {
      if (isOneRoles(op))
        op->setAttr(kRoleName, roleOf(op));
    });
    for (RoleAttr role : plan.getRoles())
      say(role);
  }

  /// "consumer: 8 warps of 224 registers a thread multiply s, dv, dp, dk"
  void say(RoleAttr role) {
    std::string products;
    getOperation().walk([&](DotStartOp dot) {
      auto of = dot->getAttrOfType<StringAttr>(kRoleName);
      if (of && dot.getName() && of.getValue() == role.getName())
        products += (products.empty() ? "" : ", ") + dot.getName()->str();
    });
    decided(getOperation(), "fa2gpu-assign-roles", "role",
            "{0}: {1} warps of {2} registers a thread{3}{4}", role.getName(),
            role.getWarps(), role.getRegisters(),
            products.empty() ? "" : " multiply ", products);
  }

  /// What one role computes in registers.
  static bool isOwned(Value v) {
    if (auto tile = dyn_cast<RankedTensorType>(v.getType());
        tile && isa_and_nonnull<SharedAttr>(tile.getEncoding()))
      return false;
    Operation *op = v.getDefiningOp();
    return isTile(v) && !(op && isEveryones(op));
  }

  void join(Operation *op, ValueRange values) {
    for (Value v : values)
      if (isOwned(v))
        classes.unionSets(op, v.getAsOpaquePointer());
  }
  void join(ValueRange a, ValueRange b) {
    for (auto [x, y] : llvm::zip(a, b))
      if (isOwned(x) && isOwned(y))
        classes.unionSets(x.getAsOpaquePointer(), y.getAsOpaquePointer());
  }

  void connect(Operation *op) {
    if (auto loop = dyn_cast<LoopLikeOpInterface>(op)) {
      join(loop.getRegionIterArgs(), loop.getInits());
      join(loop.getRegionIterArgs(), loop.getYieldedValues());
      if (auto results = loop.getLoopResults())
        join(loop.getRegionIterArgs(), *results);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      for (Region &arm : branch->getRegions())
        if (!arm.empty())
          join(op->getResults(), arm.front().getTerminator()->getOperands());
    } else if (isOneRoles(op)) {
      classes.insert(op);
      // Who shares a tile gives it to the other block too.
      if (auto swap = dyn_cast<fa2::gpu::ExchangeOp>(op))
        if (Operation *share = swap.getSource().getDefiningOp<ShareOp>())
          classes.unionSets(op, share);
      join(op, op->getOperands());
      join(op, op->getResults());
    }
  }

  /// The roles that operations name, for all of their class.
  LogicalResult findRoles() {
    WalkResult result = getOperation().walk([&](Operation *op) {
      auto role = op->getAttrOfType<StringAttr>(kRoleName);
      if (!role || !isOneRoles(op))
        return WalkResult::advance();
      StringAttr &known = roles[classes.getLeaderValue(op)];
      if (known && known != role) {
        op->emitOpError() << "expected tiles in registers of one role, got "
                          << known << " and " << role
                          << ": others get them by fa2gpu.share";
        return WalkResult::interrupt();
      }
      known = role;
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// Unless one is named, copies are the last role's and all else the first's.
  StringAttr roleOf(Operation *op) {
    if (StringAttr role = roles.lookup(classes.getLeaderValue(op)))
      return role;
    auto store = dyn_cast<StoreOp>(op); // of what stands in shared memory
    bool copies = isa<fa2::gpu::LoadOp>(op) || isOneThreads(op) ||
                  (store && !isOwned(store.getTile()));
    RoleAttr role = copies ? plan.getRoles().back() : plan.getRoles().front();
    return StringAttr::get(&getContext(), role.getName());
  }

  PlanAttr plan;
  llvm::EquivalenceClasses<const void *> classes; // of operations and tiles
  llvm::DenseMap<const void *, StringAttr> roles;
};

} // namespace
