//===- Roles.cpp - fa2gpu.roles, and whose matter an operation is ---------===//

#include "fa2/Dialect/FA2GPU/Roles.h"

#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSet.h"

#include <numeric>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

OpOperand *fa2::gpu::signalledUse(Operation *op) {
  if (auto copy = dyn_cast<TensorCopyOp>(op))
    return &copy.getUseMutable();
  if (auto copy = dyn_cast<BulkCopyOp>(op))
    return &copy.getUseMutable();
  if (auto copy = dyn_cast<PeerCopyOp>(op))
    return &copy.getUseMutable();
  return nullptr;
}

bool fa2::gpu::isCopied(Value ring) {
  return llvm::any_of(ring.getUsers(),
                      [](Operation *user) { return signalledUse(user); });
}

bool fa2::gpu::isPeer(Value ring) {
  auto create = ring.getDefiningOp<RingCreateOp>();
  return create && create.getPeer();
}

SmallVector<PeerCopyOp> fa2::gpu::copiesToPeers(Value ring) {
  SmallVector<PeerCopyOp> copies;
  for (Operation *user : ring.getUsers())
    if (isa<RingWaitOp, RingSlotOp>(user))
      for (Operation *reader : user->getResult(0).getUsers())
        if (auto copy = dyn_cast<PeerCopyOp>(reader))
          copies.push_back(copy);
  return copies;
}

SmallVector<Value> fa2::gpu::sentInto(Value ring) {
  SmallVector<Value> rings;
  for (PeerCopyOp copy : copiesToPeers(ring))
    rings.push_back(copy.getRing());
  return rings;
}

bool fa2::gpu::isReadByEngines(Value ring) {
  auto byEngine = [](Operation *op) {
    auto dot = dyn_cast<DotStartOp>(op);
    return isa<TensorStoreOp, PeerCopyOp>(op) || (dot && dot.isAsynchronous());
  };
  return llvm::any_of(ring.getUsers(), [&](Operation *user) {
    auto wait = dyn_cast<RingWaitOp>(user);
    return wait && llvm::any_of(wait.getTile().getUsers(), byEngine);
  });
}

bool fa2::gpu::copiesFence(Value ring) {
  // Slots in parts are acquired part by part, where their copies start.
  if (!isCopied(ring) || cast<RingType>(ring.getType()).getParts() > 1)
    return false;
  return llvm::all_of(ring.getUsers(), [](Operation *user) {
    auto acquire = dyn_cast<RingAcquireOp>(user);
    return !acquire || acquire.getFences();
  });
}

bool fa2::gpu::isWaitedFor(Value ring) {
  return llvm::any_of(
      ring.getUsers(),
      llvm::IsaPred<RingAcquireOp, RingCommitOp, RingWaitOp, RingReleaseOp>);
}

RingArrivals fa2::gpu::arrivalsOf(Value ring, RolesOp roles) {
  // Warps of the roles in which one of such operations stands.
  auto warpsOfRing = [&](Value ring, auto stands) {
    llvm::SmallSet<unsigned, 4> found;
    for (Operation *user : ring.getUsers())
      if (roles->isProperAncestor(user) && stands(user))
        found.insert(roles.getRoleOf(user));
    int64_t warps = 0;
    for (unsigned role : found)
      warps += roles.getWarps()[role];
    return warps / cast<RingType>(ring.getType()).getParts();
  };
  auto warpsOf = [&](auto stands) { return warpsOfRing(ring, stands); };
  bool copied = isCopied(ring);
  auto fills = [&](Operation *op) {
    auto tiles = dyn_cast<TileLoopOp>(op);
    return isa<RingAcquireOp, RingCommitOp>(op) || (tiles && tiles.getDraws());
  };
  auto reads = [&](Operation *op) {
    auto tiles = dyn_cast<TileLoopOp>(op);
    // Of a role that draws, one thread fills the queue; the others read it.
    return isa<RingWaitOp, RingReleaseOp>(op) ||
           (tiles &&
            (!tiles.getDraws() || !isOneThreads(*tiles->getParentRegion())));
  };
  RingArrivals arrivals{warpsOf(reads), 1};
  TileLoopOp draws;
  for (Operation *user : ring.getUsers())
    if (auto tiles = dyn_cast<TileLoopOp>(user); tiles && tiles.getDraws())
      draws = tiles;
  if (!draws)
    arrivals.fillers = copied ? 1 : warpsOf(fills);
  for (RingCreateOp sharer : sharersOf(ring))
    if (!isCopied(sharer.getRing()))
      arrivals.fillers += warpsOfRing(sharer.getRing(), fills);
  // The queue of the block that draws is released by the cluster's others too,
  // of which a role of one thread reads as well.
  if (int64_t others = draws ? int64_t(draws.getCluster()) - 1 : 0) {
    arrivals.consumers *= others + 1;
    if (isOneThreads(*draws->getParentRegion()))
      arrivals.consumers += others;
  }
  return arrivals;
}

bool fa2::gpu::isOneThreads(Operation *op) {
  // All threads write again what the other block has of this one.
  if (isa<RingAcquireOp>(op) && isPeer(op->getOperand(0)))
    return false;
  return signalledUse(op) ||
         (isa<RingAcquireOp, RingCommitOp>(op) && isCopied(op->getOperand(0)));
}

bool fa2::gpu::isOneThreads(Region &program) {
  return !program
              .walk([](Operation *op) {
                bool free = op->getNumRegions() > 0 || isMemoryEffectFree(op) ||
                            isa<ChainWaitOp, ChainPassOp>(op);
                if (auto tiles = dyn_cast<TileLoopOp>(op))
                  free = tiles.getDraws(); // one thread draws
                return free || isOneThreads(op) ? WalkResult::advance()
                                                : WalkResult::interrupt();
              })
              .wasInterrupted();
}

bool fa2::gpu::onlyCopies(Region &program) {
  return !program
              .walk([](Operation *op) {
                bool free = op->getNumRegions() > 0 || isMemoryEffectFree(op);
                return free || isOfCopy(op) ? WalkResult::advance()
                                            : WalkResult::interrupt();
              })
              .wasInterrupted();
}

int64_t PlanAttr::slotsOf(StringRef ring) const {
  auto slots = getRings() ? getRings().getAs<IntegerAttr>(ring) : IntegerAttr();
  return slots ? slots.getInt() : 0;
}

RoleAttr PlanAttr::findRole(StringRef name) const {
  for (RoleAttr role : getRoles())
    if (role.getName() == name)
      return role;
  return {};
}

FailureOr<PlanAttr> fa2::gpu::planOf(KernelOp kernel) {
  auto plan = kernel->getAttrOfType<PlanAttr>(kPlanName);
  if (plan && plan.getCopies() != CopiedBy::Open &&
      plan.getTiles() != TilesFrom::Open && plan.getRings())
    return plan;
  kernel.emitOpError() << "expected " << kPlanName
                       << " in which nothing is open, as fa2gpu-plan leaves it";
  return failure();
}

/// A role has a name in its kernel's plan. Where none is made yet, it is to
/// have it: fa2gpu-plan takes the names of products.
static LogicalResult verifyRole(Operation *op, Attribute role) {
  auto name = dyn_cast<StringAttr>(role);
  auto kernel = op->getParentOfType<KernelOp>();
  if (!name || !kernel)
    return op->emitOpError() << "expected a name as its role, in a kernel";
  auto plan = kernel->getAttrOfType<PlanAttr>(kPlanName);
  if (plan && !plan.findRole(name))
    return op->emitOpError()
           << "expected a role of the kernel's plan, got " << name;
  return success();
}

LogicalResult FA2GPUDialect::verifyOperationAttribute(Operation *op,
                                                      NamedAttribute attr) {
  StringRef name = attr.getName().getValue();
  if (name == kRoleName)
    return verifyRole(op, attr.getValue());
  if ((name == kAgainName || name == kThreadAnewName) &&
      isa<UnitAttr>(attr.getValue()))
    return success();
  if (name == kOrderName && isa<OrderAttr>(attr.getValue()) &&
      isa<LoopLikeOpInterface>(op))
    return success();
  if (name != kPlanName || !isa<KernelOp>(op) ||
      !isa<PlanAttr>(attr.getValue()))
    return op->emitOpError()
           << "expected fa2gpu.plan, of #fa2gpu.plan, on a kernel, "
              "fa2gpu.role, or fa2gpu.order on a loop, got "
           << name;
  return success();
}

void RolesOp::build(OpBuilder &b, OperationState &state,
                    ArrayRef<RoleAttr> roles) {
  SmallVector<StringRef> names;
  SmallVector<int64_t> warps, registers;
  for (RoleAttr role : roles) {
    names.push_back(role.getName());
    warps.push_back(role.getWarps());
    registers.push_back(role.getRegisters());
    state.addRegion();
  }
  SmallVector<bool> oneThread(roles.size(), false);
  state.addAttribute(getNamesAttrName(state.name), b.getStrArrayAttr(names));
  state.addAttribute(getWarpsAttrName(state.name),
                     b.getDenseI64ArrayAttr(warps));
  state.addAttribute(getRegistersAttrName(state.name),
                     b.getDenseI64ArrayAttr(registers));
  state.addAttribute(getOneThreadAttrName(state.name),
                     b.getDenseBoolArrayAttr(oneThread));
}

int64_t RolesOp::getFirstWarp(unsigned role) {
  ArrayRef<int64_t> before = getWarps().take_front(role);
  return std::accumulate(before.begin(), before.end(), int64_t(0));
}

SmallVector<int64_t> RolesOp::getGroupRegisters() {
  SmallVector<int64_t> registers;
  for (auto [i, warps] : llvm::enumerate(getWarps()))
    for (int64_t warp = getFirstWarp(i); warp < getFirstWarp(i) + warps; ++warp)
      if (warp % kGroupWarps == 0)
        registers.push_back(getRegisters()[i]);
  return registers;
}

unsigned RolesOp::getRoleOf(Operation *op) {
  for (auto [i, region] : llvm::enumerate(getPrograms()))
    if (region.isAncestor(op->getParentRegion()))
      return i;
  llvm_unreachable("expected an operation of a role");
}

ParseResult RolesOp::parse(OpAsmParser &p, OperationState &result) {
  Builder &b = p.getBuilder();
  SmallVector<Attribute> names;
  SmallVector<int64_t> warps, registers;
  SmallVector<bool> oneThread;
  for (StringAttr name; succeeded(p.parseOptionalSymbolName(name));) {
    Region *program = result.addRegion();
    if (p.parseLParen() || p.parseInteger(warps.emplace_back()) ||
        p.parseKeyword("warps") || p.parseComma() ||
        p.parseInteger(registers.emplace_back()) || p.parseKeyword("registers"))
      return failure();
    names.push_back(b.getStringAttr(name.getValue()));
    oneThread.push_back(succeeded(p.parseOptionalComma()));
    if ((oneThread.back() &&
         (p.parseKeyword("one") || p.parseKeyword("thread"))) ||
        p.parseRParen() || p.parseRegion(*program))
      return failure();
    // A role may have nothing to do: `{ }` is a region with an empty block.
    if (program->empty())
      program->emplaceBlock();
  }
  result.addAttribute(getNamesAttrName(result.name), b.getArrayAttr(names));
  result.addAttribute(getWarpsAttrName(result.name),
                      b.getDenseI64ArrayAttr(warps));
  result.addAttribute(getRegistersAttrName(result.name),
                      b.getDenseI64ArrayAttr(registers));
  result.addAttribute(getOneThreadAttrName(result.name),
                      b.getDenseBoolArrayAttr(oneThread));
  return p.parseOptionalAttrDict(result.attributes);
}

void RolesOp::print(OpAsmPrinter &p) {
  for (auto [i, program] : llvm::enumerate(getPrograms())) {
    p << ' ';
    p.printSymbolName(getRoleName(i));
    p << '(' << getWarps()[i] << " warps, " << getRegisters()[i] << " registers"
      << (getOneThread()[i] ? ", one thread) " : ") ");
    p.printRegion(program);
  }
  p.printOptionalAttrDict((*this)->getAttrs(),
                          {getNamesAttrName(), getWarpsAttrName(),
                           getRegistersAttrName(), getOneThreadAttrName()});
}

LogicalResult RolesOp::verify() {
  size_t count = getPrograms().size();
  if (count < 2)
    return emitOpError() << "expected two roles or more, got " << count;
  if (getNames().size() != count || getWarps().size() != count ||
      getRegisters().size() != count || getOneThread().size() != count)
    return emitOpError() << "expected a name, warps and registers of each of "
                         << count << " roles";
  llvm::StringSet<> names;
  for (size_t i = 0; i < count; ++i) {
    if (!names.insert(getRoleName(i)).second)
      return emitOpError() << "expected roles of different names, got '"
                           << getRoleName(i) << "' twice";
    if (getWarps()[i] < 1)
      return emitOpError() << "expected a warp or more, got role '"
                           << getRoleName(i) << "' of " << getWarps()[i];
    // Several roles that share a warpgroup, or one of whole warpgroups.
    int64_t first = getFirstWarp(i), end = first + getWarps()[i];
    bool whole = first % kGroupWarps == 0 && end % kGroupWarps == 0,
         shares = first / kGroupWarps == (end - 1) / kGroupWarps;
    if (!whole && !shares)
      return emitOpError() << "expected whole warpgroups of " << kGroupWarps
                           << " warps, or part of one, because they have "
                              "registers together, got role '"
                           << getRoleName(i) << "' of " << getWarps()[i]
                           << " behind " << first;
    if (first % kGroupWarps != 0 && getRegisters()[i] != getRegisters()[i - 1])
      return emitOpError() << "expected roles that share a warpgroup to have "
                              "as many registers, got "
                           << getRegisters()[i - 1] << " and "
                           << getRegisters()[i];
  }
  if (getTotalWarps() % kGroupWarps != 0)
    return emitOpError() << "expected roles of whole warpgroups of "
                         << kGroupWarps << " warps together, got "
                         << getTotalWarps();
  return success();
}

bool DotStartOp::isAsynchronous() {
  auto acc = cast<AccAttr>(getD().getType().getTile().getEncoding());
  return acc.getFamily().warpsPerInstruction() > 1;
}
