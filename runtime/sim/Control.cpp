//===- Control.cpp - Branches, exit, setmaxnreg, dependent launch ---------===//
//
// PTX ISA 9.7.12 (control flow), 9.7.19.4 (setmaxnreg), 9.7.13.13
// (griddepcontrol). The divergence itself is Machine::branch.
//
//===----------------------------------------------------------------------===//

#include "Lanes.h"

namespace fa2::sim {
namespace {

Flow trap(Warp &w, const Inst &inst, u32 mask) {
  w.machine->fatal(11, w, inst, std::countr_zero(mask), "control", 0,
                   "trap was executed");
}
Flow nothing(Warp &, const Inst &, u32) { return Flow::Next; }

// Rule 12. A block's registers are those at entry; an increase waits until
// other warps have given back enough.
Flow setmaxnreg(Warp &w, const Inst &inst, u32 mask) {
  Machine &m = *w.machine;
  Block &block = *w.block;
  u32 want = u32(inst.b);
  if (m.checks() && mask != kFullMask)
    m.error(12, w, inst, -1, "registers", 0,
            "setmaxnreg.sync.aligned by a partial warp");
  if (!block.budgeted) {
    if (m.checks())
      m.report(Severity::Warning, 12, &w, &inst, -1, "registers", 0,
               "setmaxnreg without .maxntid or .maxnreg is ignored");
    return Flow::Next;
  }
  if (inst.a && want > w.registers) {
    u32 more = want - w.registers;
    if (more > block.freeRegisters) {
      w.waitPhase = want;
      m.park(w, Wait::Registers, want, inst);
      return Flow::Stay;
    }
    block.freeRegisters -= more;
    w.registers = want;
  } else if (!inst.a && want < w.registers) {
    block.freeRegisters += w.registers - want;
    w.registers = want;
    for (Warp &other : block.warps)
      if (other.wait == Wait::Registers)
        m.wake(other);
  } else if (m.checks() && want != w.registers) {
    m.error(12, w, inst, -1, "registers", 0,
            std::string(inst.a ? "increase" : "decrease") + " from " +
                std::to_string(w.registers) + " to " + std::to_string(want) +
                " registers");
  }
  return Flow::Next;
}

Flow gridControl(Warp &w, const Inst &inst, u32) {
  Machine &m = *w.machine;
  Block &block = *w.block;
  // The first thread of a block that executes it speaks for the block.
  if (inst.a) {
    m.releaseDependents(block);
    return Flow::Next;
  }
  Grid &grid = *block.grid;
  if (!m.previousGridsDone(grid)) {
    m.park(w, Wait::Grid, 0, inst);
    return Flow::Stay;
  }
  // Everything of every earlier grid is ordered before (rule 9).
  block.waitedForGrids = true;
  w.clocks.g.watermark = std::max(w.clocks.g.watermark, grid.firstSequence);
  w.clocks.a.watermark = w.clocks.g.watermark;
  return Flow::Next;
}

} // namespace

bool decodeControl(Decoder &d) {
  Inst &inst = d.inst;
  if (d.root == "bra") {
    d.eat("uni");
    d.operands(1);
    if (d.at(0).kind != RawOperand::Symbol)
      d.fail("expected a label");
    d.builder.branchTo(d.raw.line, d.at(0).name);
    inst.isBranch = true;
    d.emit(nothing, Category::Control);
    return true;
  }
  if (d.root == "ret" || d.root == "exit") {
    d.eat("uni");
    d.operands(0);
    inst.isBranch = true;
    d.emit(nothing, Category::Control);
    return true;
  }
  if (d.root == "trap") {
    d.operands(0);
    d.emit(trap, Category::Control);
    return true;
  }
  if (d.root == "nanosleep") {
    d.need("u32");
    d.operands(1);
    d.src(0, Type::U32);
    inst.sync = true;
    d.emit(nothing, Category::Control);
    return true;
  }
  if (d.root == "setmaxnreg") {
    inst.a = d.eat("inc");
    if (!inst.a)
      d.need("dec");
    d.need("sync");
    d.need("aligned");
    d.need("u32");
    d.operands(1);
    s64 n = d.literal(0);
    if (n < 24 || n > 256 || n % 8)
      d.fail("the register count must be 24 to 256 in steps of 8");
    if (d.builder.program.capability < 90)
      return false;
    inst.b = s32(n);
    d.emit(setmaxnreg, Category::Control);
    return true;
  }
  if (d.builder.program.capability < 90)
    return false;
  inst.a = d.eat("launch_dependents");
  if (!inst.a)
    d.need("wait");
  d.operands(0);
  inst.sync = true;
  d.emit(gridControl, Category::Synchronize);
  return true;
}

} // namespace fa2::sim
