//===- Wgmma.cpp - wgmma (PTX ISA 9.7.15) ---------------------------------===//
//
// Each warp computes its 16 rows of the 64. Rule 6: registers from issue to
// the wait that covers them, wgmma.fence, and `.aligned` by warpgroup.
//
//===----------------------------------------------------------------------===//

#include "Access.h"
#include "Lanes.h"
#include "MmaNumerics.h"
#include "TensorMap.h"

namespace fa2::sim {
namespace {

// Inst: a = n, b = bf16, c = 1, d = flags.
enum Flags { RegisterA = 1, NegateA = 2, NegateB = 4, TransA = 8, TransB = 16 };

/// A matrix descriptor (9.7.15.5.1.2.2).
struct Descriptor {
  u32 start, leading, stride, swizzle;
  explicit Descriptor(u64 bits)
      : start(u32(bits & 0x3fff) << 4), leading(u32(bits >> 16 & 0x3fff) << 4),
        stride(u32(bits >> 32 & 0x3fff) << 4) {
    constexpr u32 spans[] = {0, 128, 64, 32};
    swizzle = spans[bits >> 62];
  }
  /// Eight neighbours along the contiguous dimension: `piece` counts them,
  /// `line` the other dimension (9.7.15.5.1.2.1).
  u32 address(bool transposed, u32 line, u32 piece) const {
    if (swizzle == 0)
      return start + line / 8 * stride + piece * leading + line % 8 * 16;
    u32 byte = piece * 16;
    u32 linear = start + line / 8 * stride + line % 8 * swizzle;
    linear += transposed ? byte / swizzle * leading + byte % swizzle : byte;
    return swizzled(linear, swizzle);
  }
};

void checkDescriptor(Warp &w, const Inst &inst, u64 bits, bool transposed) {
  Machine &m = *w.machine;
  if (bits >> 49 & 7)
    m.fatal(6, w, inst, -1, "descriptor", bits,
            "a matrix descriptor with a base offset is not simulated");
  if (transposed && bits >> 62 == 0)
    m.fatal(6, w, inst, -1, "descriptor", bits,
            "a transposed operand without swizzle is not simulated");
  // An address that was shifted and not masked to 14 bits leaves the rank in
  // the leading byte offset, which is 0 or 1 where it has no meaning and a
  // multiple of the swizzle's period where it has.
  Descriptor d(bits);
  u32 rank = w.block->rank;
  if (rank && d.swizzle && (bits >> (kRankShift - 4) & 7) == rank &&
      (!transposed || d.leading % (8 * d.swizzle)))
    m.fatal(13, w, inst, -1, "descriptor", bits,
            "the descriptor's leading byte offset of " +
                std::to_string(d.leading) + " has the block's rank " +
                std::to_string(rank) +
                " in it: a shared address in a cluster is masked to 18 bits "
                "first");
}

/// Pieces of 16 bytes of an operand: K-major has two pieces a row, transposed
/// has `extent` / 8 pieces for each of the 16 k.
template <class Body>
void forEachPiece(const Descriptor &d, bool transposed, u32 first, u32 extent,
                  Body body) {
  if (transposed)
    for (u32 k = 0; k < 16; ++k)
      for (u32 p = first / 8; p < (first + extent) / 8; ++p)
        body(k, p, d.address(true, k, p));
  else
    for (u32 r = first; r < first + extent; ++r)
      for (u32 p = 0; p < 2; ++p)
        body(r, p, d.address(false, r, p));
}

void checkOperand(Warp &w, const Inst &inst, u64 bits, bool transposed,
                  u32 first, u32 extent) {
  Descriptor d(bits);
  u32 agent = w.block->agents.wgmma(w.id);
  forEachPiece(d, transposed, first, extent, [&](u32, u32, u32 address) {
    boundShared(w, inst, -1, address, 16);
    checkSharedAs(w, inst, agent, w.wgmmaGroup, address, 16, false);
  });
}

// B into [k][n]; A with the roles of line and piece the same.
void gather(const Warp &w, u64 bits, bool transposed, u32 first, u32 extent,
            u16 *out, u32 strideMn, u32 strideK) {
  const u8 *shared = w.block->shared.data();
  Descriptor d(bits);
  forEachPiece(d, transposed, first, extent, [&](u32 line, u32 p, u32 address) {
    u16 piece[8];
    std::memcpy(piece, shared + address, 16);
    for (u32 e = 0; e < 8; ++e) {
      u32 mn = transposed ? 8 * p + e : line, k = transposed ? line : 8 * p + e;
      out[(mn - first) * strideMn + k * strideK] = piece[e];
    }
  });
}

// `.aligned`: all warps of a warpgroup execute the same instructions.
void checkAligned(Warp &w, const Inst &inst, u32 mask) {
  Machine &m = *w.machine;
  if (mask != kFullMask)
    m.fatal(6, w, inst, std::countr_zero(~mask), "warp", 0,
            "wgmma by a partial warp");
  Block &block = *w.block;
  if (!m.checks())
    return;
  if (block.warps.size() % 4) {
    m.error(6, w, inst, -1, "warp", 0, "wgmma by an incomplete warpgroup");
    return;
  }
  auto &lines = block.wgmmaLines[w.id / 4];
  const Inst *code = block.kernel->code.data();
  u32 index = u32(&inst - code);
  u64 at = w.wgmmaSequence++;
  if (at == lines.size()) {
    lines.push_back(index);
    return;
  }
  const Inst &other = code[lines[size_t(at)]];
  if (&other == &inst)
    return;
  m.report(Severity::Error, 6, &w, &inst, -1, "warp", 0,
           "warps of one warpgroup execute different wgmma instructions",
           &other);
}

void useRegister(Warp &w, const Inst &inst, const Operand &op,
                 bool accumulator) {
  Machine &m = *w.machine;
  u32 state = w.flight[op.reg];
  const std::string &name = w.block->kernel->registerNames[op.reg];
  if (w.touched[op.reg] > w.fences)
    m.error(6, w, inst, -1, "register", op.reg,
            "register '" + name + "' was accessed since the last wgmma.fence");
  if ((accumulator && state & 2) || (!accumulator && state & 1))
    m.error(6, w, inst, -1, "register", op.reg,
            "register '" + name + "' is in use by wgmma group " +
                std::to_string(state >> 2) + ", which has not been waited for");
  if (!state)
    w.flying.push_back(op.reg);
  w.flight[op.reg] = w.wgmmaGroup << 2 | (state & 3) | (accumulator ? 1 : 2);
}

// Operands: d x n/2, a x4 or descriptor, b descriptor, scale-d.
Flow multiply(Warp &w, const Inst &inst, u32 mask) {
  checkAligned(w, inst, mask);
  Machine &m = *w.machine;
  const unsigned n = unsigned(inst.a), registers = n / 2;
  const Operand *a = inst.ops + registers;
  const bool fromRegisters = inst.d & RegisterA;
  const Operand *b = a + (fromRegisters ? 4 : 1), *scale = b + 1;
  PendingWgmma pending;
  pending.inst = &inst;
  pending.group = w.wgmmaGroup;
  pending.descB = w.lane64(*b, 0);
  u32 p = w.predicate(*scale);
  if (p != 0 && p != kFullMask)
    m.fatal(6, w, inst, -1, "register", 0, "scale-d differs between lanes");
  pending.accumulate = p != 0;
  checkDescriptor(w, inst, pending.descB, inst.d & TransB);
  if (!fromRegisters) {
    pending.descA = w.lane64(*a, 0);
    checkDescriptor(w, inst, pending.descA, inst.d & TransA);
  }
  // Bounds always; races and the rest with checks on.
  if (!fromRegisters)
    checkOperand(w, inst, pending.descA, inst.d & TransA, 16 * (w.id % 4), 16);
  checkOperand(w, inst, pending.descB, inst.d & TransB, 0, n);
  if (m.checks()) {
    if (w.fences == 0)
      m.error(6, w, inst, -1, "warp", 0,
              "no wgmma.fence before the warpgroup's first wgmma.mma_async");
    for (unsigned r = 0; r < registers; ++r) {
      const Operand &d = inst.ops[r];
      if (pending.accumulate && w.written[d.reg] != kFullMask)
        m.error(11, w, inst, -1, "register", d.reg,
                "accumulator '" + w.block->kernel->registerNames[d.reg] +
                    "' was never written");
      useRegister(w, inst, d, true);
      w.written[d.reg] = kFullMask;
    }
    if (fromRegisters)
      for (unsigned r = 0; r < 4; ++r)
        useRegister(w, inst, a[r], false);
  }
  if (LineProfile *line = m.profileOf(w, inst)) {
    u64 operations = 2ull * 16 * n * 16;
    line->tensorOperations += operations;
    m.result.profile.tensorOperations += operations;
    // B is read once for the warpgroup.
    u64 bytes = n * 32 / 4 + (fromRegisters ? 0 : 512);
    line->sharedBytes += bytes;
    m.result.profile.sharedLoadBytes += bytes;
  }
  w.wgmmas.push_back(pending);
  if (m.completesNow())
    for (PendingWgmma &each : w.wgmmas)
      executeWgmma(w, each);
  return Flow::Next;
}

Flow fence(Warp &w, const Inst &inst, u32 mask) {
  checkAligned(w, inst, mask);
  ++w.fences;
  return Flow::Next;
}
Flow commit(Warp &w, const Inst &inst, u32 mask) {
  checkAligned(w, inst, mask);
  ++w.wgmmaGroup;
  return Flow::Next;
}
Flow waitGroup(Warp &w, const Inst &inst, u32 mask) {
  checkAligned(w, inst, mask);
  u32 committed = w.wgmmaGroup - 1, pending = u32(inst.a);
  u32 done = committed > pending ? committed - pending : 0;
  while (!w.wgmmas.empty() && w.wgmmas.front().group <= done) {
    executeWgmma(w, w.wgmmas.front());
    w.wgmmas.pop_front();
  }
  if (!w.machine->checks())
    return Flow::Next;
  std::erase_if(w.flying, [&](u32 reg) {
    bool over = w.flight[reg] >> 2 <= done;
    if (over)
      w.flight[reg] = 0;
    return over;
  });
  u32 &seen = w.clocks.g.own[w.block->agents.wgmma(w.id)];
  seen = std::max(seen, done);
  return Flow::Next;
}

} // namespace

// d[4i + 2r + j] is row lane/4 + 8r, column 8i + 2(lane%4) + j (9.7.15.5.1.1).
void executeWgmma(Warp &w, PendingWgmma &pending) {
  if (pending.done)
    return;
  pending.done = true;
  const Inst &inst = *pending.inst;
  const unsigned n = unsigned(inst.a), registers = n / 2;
  const Operand *pa = inst.ops + registers;
  u16 a[16 * 16], b[16 * 256];
  float c[16 * 256];
  if (inst.d & RegisterA) {
    for (unsigned r = 0; r < 4; ++r) {
      const u32 *s = w.words(pa[r]);
      for (unsigned l = 0; l < kWarpSize; ++l) {
        unsigned at = (l / 4 + 8 * (r & 1)) * 16 + 8 * (r / 2) + 2 * (l % 4);
        a[at] = u16(s[l]);
        a[at + 1] = u16(s[l] >> 16);
      }
    }
  } else {
    gather(w, pending.descA, inst.d & TransA, 16 * (w.id % 4), 16, a, 16, 1);
  }
  gather(w, pending.descB, inst.d & TransB, 0, n, b, 1, n);
  if (bool(inst.d & NegateA) != bool(inst.d & NegateB))
    for (u16 &x : a)
      x ^= 0x8000;
  auto place = [&](unsigned r, unsigned l) {
    return (l / 4 + 8 * (r >> 1 & 1)) * n + 8 * (r / 4) + 2 * (l % 4) + (r & 1);
  };
  for (unsigned r = 0; r < registers; ++r) {
    const u32 *s = w.words(inst.ops[r]);
    for (unsigned l = 0; l < kWarpSize; ++l)
      c[place(r, l)] = pending.accumulate ? asFloat(s[l]) : 0.0f;
  }
  multiplyAdd(a, b, c, n, 16, inst.b, w.machine->options.capability);
  for (unsigned r = 0; r < registers; ++r) {
    u32 *s = w.words(inst.ops[r]);
    for (unsigned l = 0; l < kWarpSize; ++l)
      s[l] = asBits(c[place(r, l)]);
  }
}

bool decodeWgmma(Decoder &d) {
  Inst &inst = d.inst;
  if (d.builder.program.capability < 90)
    d.fail("wgmma needs sm_90a");
  d.builder.kernel.usesWgmma = true;
  int kind = d.eatAny({"fence", "commit_group", "wait_group", "mma_async"});
  if (kind < 0)
    return false;
  d.need("sync");
  d.need("aligned");
  if (kind < 2) {
    d.operands(0);
    d.emit(kind == 0 ? fence : commit, Category::Synchronize);
    return true;
  }
  if (kind == 2) {
    d.operands(1);
    s64 pending = d.literal(0);
    if (pending < 0 || pending > 7)
      d.fail("the number of groups must be 0 to 7");
    inst.a = s32(pending);
    inst.d = -1;
    d.emit(waitGroup, Category::Synchronize);
    return true;
  }
  unsigned n = 0;
  for (unsigned k = 8; k <= 256 && n == 0; k += 8)
    if (d.eat("m64n" + std::to_string(k) + "k16"))
      n = k;
  Type td = d.type(), ta = d.type(), tb = d.type();
  if (n == 0 || td != Type::F32 || ta != tb ||
      (ta != Type::F16 && ta != Type::BF16))
    d.fail("only m64n8k16 to m64n256k16 with f32.{f16,bf16} are known");
  inst.a = s32(n);
  inst.b = ta == Type::BF16;
  inst.c = 1;
  bool registersA =
      d.raw.operands.size() > 1 && d.at(1).kind == RawOperand::Vector;
  d.operands(registersA ? 7 : 8);
  const RawOperand &acc = d.at(0);
  if (acc.kind != RawOperand::Vector || acc.elements.size() != n / 2)
    d.fail("the accumulator needs " + std::to_string(n / 2) + " registers");
  for (const RawOperand &e : acc.elements) {
    if (e.kind != RawOperand::Symbol)
      d.fail("accumulators are registers");
    d.add(e, Type::F32, Role::Quiet);
  }
  if (registersA) {
    inst.d |= RegisterA;
    if (d.at(1).elements.size() != 4)
      d.fail("A needs 4 registers");
    for (const RawOperand &e : d.at(1).elements)
      d.add(e, Type::B32, Role::Source);
  } else {
    d.src(1, Type::B64);
  }
  d.src(2, Type::B64);
  d.src(3, Type::Pred);
  auto sign = [&](size_t index, s32 flag) {
    s64 v = d.literal(index);
    if (v != 1 && v != -1)
      d.fail("imm-scale must be 1 or -1");
    inst.d |= v == -1 ? flag : 0;
  };
  auto transpose = [&](size_t index, s32 flag) {
    s64 v = d.literal(index);
    if (v != 0 && v != 1)
      d.fail("imm-trans must be 0 or 1");
    inst.d |= v ? flag : 0;
  };
  sign(4, NegateA);
  sign(5, NegateB);
  if (!registersA)
    transpose(6, TransA);
  transpose(registersA ? 6 : 7, TransB);
  d.emit(multiply, Category::TensorCore);
  return true;
}

} // namespace fa2::sim
