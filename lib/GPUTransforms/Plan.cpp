//===- Plan.cpp - fa2gpu-plan ---------------------------------------------===//
//
// What a kernel's block is made of, decided once. The passes behind read the
// plan; they ask neither the schedule nor the target for it.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Rings/RingFormer.h"
#include "fa2/Schedule/Footprint.h"

#include "llvm/ADT/StringExtras.h"

namespace fa2 {
#define GEN_PASS_DEF_PLAN
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

constexpr llvm::StringLiteral kConsumer = "consumer", kProducer = "producer",
                              kSums = "sums";

/// A product that a field of the schedule gives to another role than the first;
/// the later line counts.
struct ProductRole {
  bool Schedule::*field;
  llvm::StringLiteral product, role;
};
constexpr ProductRole kProductRoles[] = {
    {&Schedule::dqByProducer, "dq", kProducer},
    {&Schedule::dqByProducer, "dq_other", kProducer},
    {&Schedule::dqRole, "dq", kSums},
    {&Schedule::dqRole, "dq_other", kSums},
};

struct PlanPass : public fa2::impl::PlanBase<PlanPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    const Target *target = targetOf(kernel);
    if (!target)
      return signalPassFailure();
    auto written = kernel->getAttrOfType<PlanAttr>(kPlanName);
    const Schedule &s = kernel.getSchedule().getFields();
    SmallVector<RoleAttr> roles;
    if (written)
      roles.assign(written.getRoles().begin(), written.getRoles().end());
    else if (target->producerWarps() > 0 && multiplies())
      roles = rolesOf(*target, s);
    CopiedBy copies = written ? written.getCopies() : CopiedBy::Open;
    if (copies == CopiedBy::Open)
      copies = !roles.empty() && target->copyEngine() ? CopiedBy::Engine
                                                      : CopiedBy::Threads;
    TilesFrom tiles = written ? written.getTiles() : TilesFrom::Open;
    if (tiles == TilesFrom::Open)
      tiles = s.persistent ? TilesFrom::Queue : TilesFrom::Grid;
    if (roles.empty() &&
        (copies == CopiedBy::Engine || tiles == TilesFrom::Queue)) {
      kernel.emitOpError()
          << "expected roles in a plan with copies = engine or "
             "tiles = queue, one of which starts copies and "
             "draws tiles; got none";
      return signalPassFailure();
    }
    NamedAttrList rings(written ? written.getRings() : DictionaryAttr());
    if (failed(addRings(rings, s, !roles.empty())))
      return signalPassFailure();
    kernel->setAttr(kPlanName,
                    PlanAttr::get(&getContext(), roles, copies, tiles,
                                  rings.getDictionary(&getContext())));
  }

  /// Kernels without matmuls, such as backward's statistics, have nothing to
  /// run beside copies.
  bool multiplies() {
    return getOperation()
        .walk([](DotStartOp) { return WalkResult::interrupt(); })
        .wasInterrupted();
  }

  /// Whether a role computes what products begin with.
  bool givesTerms() {
    return getOperation()
        .walk([](ShareOp op) {
          StringAttr role = roleOf(op);
          return role && role.getValue() == kTermsRole ? WalkResult::interrupt()
                                                       : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// The roles that the schedule asks for; products learn which is theirs.
  SmallVector<RoleAttr> rolesOf(const Target &target, const Schedule &s) {
    MLIRContext *ctx = &getContext();
    bool threadsCopy = false;
    getOperation().walk(
        [&](fa2::gpu::LoadOp load) { threadsCopy |= load.getByThreads(); });
    RoleRegisters registers = target.roleRegisters(s, threadsCopy);
    getOperation().walk([&](DotStartOp dot) {
      for (const ProductRole &row : kProductRoles)
        if (s.*row.field && dot.getName() == row.product)
          dot->setAttr(kRoleName, StringAttr::get(ctx, row.role));
    });
    // The warps that compute, divided among the programs that products name.
    llvm::SetVector<StringAttr> names;
    bool sums = false;
    getOperation().walk([&](DotStartOp dot) {
      auto role = dot->getAttrOfType<StringAttr>(kRoleName);
      if (role && role.getValue() == kSums)
        sums = true;
      else if (role && role.getValue() != kProducer)
        names.insert(role);
    });
    if (names.empty())
      names.insert(StringAttr::get(ctx, kConsumer));
    SmallVector<RoleAttr> roles;
    for (StringAttr name : names)
      roles.push_back(RoleAttr::get(ctx, name.getValue(),
                                    s.warps / int64_t(names.size()),
                                    registers.consumer));
    if (sums)
      roles.push_back(
          RoleAttr::get(ctx, kSums, s.warpsOfGradQ(), registers.sums));
    // Of the producer's warps one copies; others may see to turns, or compute
    // what products begin with.
    int64_t left = target.producerWarps();
    if (givesTerms()) {
      roles.push_back(RoleAttr::get(ctx, kTermsRole, 1, registers.producer));
      --left;
    }
    if (s.turns == TurnChange::ByRoles)
      for (StringRef name : {kLooksRole, kPassesRole}) {
        roles.push_back(RoleAttr::get(ctx, name, 1, registers.producer));
        --left;
      }
    roles.push_back(RoleAttr::get(ctx, kProducer, left, registers.producer));
    return roles;
  }

  /// Slots of the rings that the plan does not say, by what they carry.
  LogicalResult addRings(NamedAttrList &rings, const Schedule &s, bool roles) {
    Builder b(&getContext());
    llvm::StringMap<int64_t> slots;
    // One slot is enough where the block meets between a tile's last read and
    // the next one's write. Roles need not wait for each other so soon.
    slots[kExchangeRing] = roles ? s.exchangeSlots : 1;
    slots[kPeerRing] = s.exchangeSlots;
    if (givesTerms())
      slots[kTermsRing] = s.slotsOf(kTermsRing, /*inLoop=*/true);
    if (s.turns == TurnChange::ByRoles)
      slots[kTurnRing] = slots[kAddedRing] = kTurnSlots;
    WalkResult result = getOperation().walk([&](fa2::gpu::LoadOp op) {
      ArgumentAttr arg = argumentOf(getOperation(), op.getView());
      StringRef name = nameOf(getOperation(), op.getView());
      int64_t count = arg && arg.getBroadcast()
                          ? s.slotsReads
                          : s.slotsOf(name, isa<ForTilesOp>(op->getParentOp()));
      auto [known, added] = slots.try_emplace(name, count);
      if (added || known->second == count)
        return WalkResult::advance();
      op.emitOpError() << "expected all loads of '" << name
                       << "' to have rings of as many slots, got "
                       << known->second << " and " << count;
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted() || failed(checkRings(rings, slots)))
      return failure();
    for (auto &[name, count] : slots)
      if (!rings.get(name))
        rings.set(name, b.getI64IntegerAttr(count));
    return success();
  }

  /// Whether the rings that a plan says are some that the kernel has.
  LogicalResult checkRings(NamedAttrList &rings,
                           const llvm::StringMap<int64_t> &slots) {
    auto known = llvm::to_vector(slots.keys());
    llvm::sort(known);
    for (NamedAttribute ring : rings) {
      auto count = dyn_cast<IntegerAttr>(ring.getValue());
      if (!slots.contains(ring.getName().getValue()))
        return getOperation().emitOpError()
               << "expected the plan's rings to be of "
               << llvm::join(known, ", ") << ", got '"
               << ring.getName().getValue() << "'; the nearest is "
               << nearestName(ring.getName().getValue(), known);
      if (!count || count.getInt() < 1)
        return getOperation().emitOpError()
               << "expected the plan's ring '" << ring.getName().getValue()
               << "' to have 1 slot or more, got " << ring.getValue();
    }
    return success();
  }
};

} // namespace
