//===- ChainKernels.cpp - fa2gpu-chain-kernels ----------------------------===//
//
// PTX ISA, "griddepcontrol". The wait of a kernel is for the end of the one
// before it; since that one has waited too, all before it are over.
//
//===----------------------------------------------------------------------===//

#include "Decided.h"
#include "fa2/GPUTransforms/Passes.h"
#include "fa2/Target/Target.h"

#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringMap.h"

namespace fa2 {
#define GEN_PASS_DEF_CHAINKERNELS
#include "fa2/GPUTransforms/Passes.h.inc"
} // namespace fa2

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

namespace {

struct Access {
  bool reads = false, writes = false;
};
/// By an argument's name, the same in all kernels of a program.
using Accesses = llvm::StringMap<Access>;

/// The kernel's argument that a value shows; null where it shows none.
ArgumentAttr argumentOf(KernelOp kernel, Value v) {
  if (auto view = v.getDefiningOp<ViewOp>())
    v = view.getSource();
  else if (auto map = v.getDefiningOp<TensorMapOp>())
    v = map.getSource();
  auto arg = dyn_cast<BlockArgument>(v);
  if (!arg || !isa<MemRefType>(arg.getType()) ||
      arg.getOwner() != &kernel.getBody().front())
    return {};
  return cast<ArgumentAttr>(kernel.getArguments()[arg.getArgNumber()]);
}

/// What an operation does to memory that kernels share, but for the operations
/// in its regions.
Accesses accessesOf(KernelOp kernel, Operation *op) {
  Accesses found;
  if (isa<TileLoopOp>(op)) // the counter of tiles
    found[kernel.followsOthersRows() ? "1" : ""] = {true, true};
  if (isMemoryEffectFree(op))
    return found;
  auto interface = dyn_cast<MemoryEffectOpInterface>(op);
  for (Value operand : op->getOperands()) {
    ArgumentAttr arg = argumentOf(kernel, operand);
    if (!arg)
      continue;
    SmallVector<MemoryEffects::EffectInstance> effects;
    if (interface)
      interface.getEffectsOnValue(operand, effects);
    Access &access = found[arg.getName()];
    for (const MemoryEffects::EffectInstance &effect : effects) {
      access.reads |= isa<MemoryEffects::Read>(effect.getEffect());
      access.writes |= isa<MemoryEffects::Write>(effect.getEffect());
    }
    if (effects.empty())
      access = {true, true};
  }
  return found;
}

/// The first operation below `program` that must not run before kernels with
/// these accesses have ended.
Operation *firstConflict(KernelOp kernel, Block &program,
                         const Accesses &before) {
  Operation *first = nullptr;
  program.walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (const auto &[name, access] : accessesOf(kernel, op)) {
      Access other = before.lookup(name);
      if (other.writes || (other.reads && access.writes)) {
        first = op;
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return first;
}

/// The operation around `op` that runs in each block, whatever the lengths are:
/// of the program, or of its tile. A block's tiles one after the other wait
/// only where they share rows with the kernel before, whose blocks they follow.
Operation *outermost(Block &program, Operation *op, bool inTiles) {
  Operation *top = program.findAncestorOpInBlock(*op);
  if (top == op ||
      !(isa<ForEachTileOp>(top) || (inTiles && isa<TileLoopOp>(top))))
    return top;
  return top->getRegion(0).front().findAncestorOpInBlock(*op);
}

struct ChainKernelsPass : public fa2::impl::ChainKernelsBase<ChainKernelsPass> {
  void runOnOperation() override {
    Accesses before;
    KernelOp last;
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      const Target *target = targetOf(kernel);
      if (!target)
        return signalPassFailure();
      if (last && kernel.isInPlaceOf(last)) {
        before.clear();
        last = {};
      }
      bool shares = last && last.getPartsAttr() && kernel.getPartsAttr();
      bool chains =
          shares || (last && last.getSchedule().getChained() != Chain::None);
      if (chains && target->overlapsKernels()) {
        wait(kernel, before);
        pass(last);
      }
      kernel.walk([&](Operation *op) {
        for (const auto &[name, access] : accessesOf(kernel, op)) {
          before[name].reads |= access.reads;
          before[name].writes |= access.writes;
        }
      });
      last = kernel;
    }
  }

  static RolesOp rolesOf(KernelOp kernel) {
    for (auto roles : kernel.getOps<RolesOp>())
      return roles;
    return {};
  }

  static void wait(KernelOp kernel, const Accesses &before) {
    Block &body = kernel.getBody().front();
    OpBuilder b(body.getTerminator());
    auto place = [&](Block &program) {
      Operation *first = firstConflict(kernel, program, before);
      if (!first)
        return false;
      Operation *top = outermost(program, first, kernel.followsOthersRows());
      if (isa<RolesOp>(top))
        return false;
      b.setInsertionPoint(top);
      decided(kernel, "fa2gpu-chain-kernels", "wait",
              "waits for the kernels in front before {0}, the first to touch "
              "what one of them writes or reads",
              first->getName().getStringRef());
      ChainWaitOp::create(b, top->getLoc());
      return true;
    };
    bool placed = place(body);
    if (RolesOp roles = rolesOf(kernel); roles && !placed)
      for (Region &program : roles.getPrograms())
        placed |= place(program.front());
    if (!placed)
      ChainWaitOp::create(b, kernel.getLoc());
  }

  /// Late: behind the last loop of the first role's tile.
  static void pass(KernelOp kernel) {
    Block *program = &kernel.getBody().front();
    OpBuilder b = OpBuilder::atBlockBegin(program);
    if (kernel.getSchedule().getChained() == Chain::Late) {
      if (RolesOp roles = rolesOf(kernel))
        program = &roles.getPrograms().front().front();
      for (auto tiles : program->getOps<ForEachTileOp>())
        program = &tiles.getBody().front();
      for (Operation &op : *program)
        if (op.walk([](LoopLikeOpInterface) {
                return WalkResult::interrupt();
              }).wasInterrupted())
          b.setInsertionPointAfter(&op);
    }
    ChainPassOp::create(b, kernel.getLoc());
  }
};

} // namespace
