//===- SoftmaxOfLoop.cpp - a softmax with the matmuls around it -----------===//

#include "SoftmaxOfLoop.h"

#include "fa2/Dialect/FA2GPU/Roles.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

/// The operations of the loop's body that compute the tile `v` from a product,
/// `wait`, in order, and read what stands in rings: registers need not hold it
/// until it is known whether the step is done once more.
static void collectProgram(DotWaitOp &wait, Value v, Block *body,
                           llvm::SetVector<Operation *> &program) {
  Operation *op = v.getDefiningOp();
  if (!op || op->getBlock() != body || !isTile(v) || program.contains(op))
    return;
  if (auto end = dyn_cast<DotWaitOp>(op))
    wait = end;
  if ((!isPure(op) && !isa<LocalLoadOp>(op)) || isa<DotWaitOp>(op))
    return;
  for (Value operand : op->getOperands())
    collectProgram(wait, operand, body, program);
  program.insert(op);
}

SoftmaxOfLoop fa2::gpu::findSoftmax(scf::ForOp loop) {
  SoftmaxOfLoop s;
  for (auto step : loop.getBody()->getOps<SoftmaxStepOp>()) {
    DotWaitOp wait;
    collectProgram(wait, step.getS(), loop.getBody(), s.program);
    if (!wait)
      continue;
    s.softmax = step;
    s.scores = wait.getSource().getDefiningOp<DotStartOp>();
    DotWaitOp none;
    if (Value acc = s.scores ? s.scores.getAcc() : Value())
      collectProgram(none, acc, loop.getBody(), s.start);
  }
  if (!s.softmax)
    return s;
  for (Operation *user : s.softmax.getAlpha().getUsers())
    if (auto scale = dyn_cast<ScaleRowsOp>(user)) {
      s.rescaled = scale;
      s.output = scale.getTile().getDefiningOp<DotWaitOp>();
    }
  return s;
}
