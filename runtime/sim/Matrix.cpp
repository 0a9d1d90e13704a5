//===- Matrix.cpp - ldmatrix, stmatrix, mma.sync --------------------------===//
//
// PTX ISA 9.7.14.5.15 (ldmatrix), 9.7.14.5.16 (stmatrix), 9.7.14.5.7 and
// 9.7.14.5.8 (fragments of m16n8k8 and m16n8k16), 9.7.14.5.14 (mma).
//
//===----------------------------------------------------------------------===//

#include "Access.h"
#include "Lanes.h"
#include "MmaNumerics.h"

namespace fa2::sim {
namespace {

void needAll(Warp &w, const Inst &inst, u32 mask) {
  if (mask != kFullMask)
    w.machine->fatal(2, w, inst, std::countr_zero(~mask), "warp", 0,
                     ".sync.aligned instruction by a partial warp");
}

/// Row addresses: lane 8i + r has row r of matrix i.
void rows(Warp &w, const Inst &inst, const Operand &base, bool write,
          u32 *address) {
  u32 lanes = inst.vec == 4 ? kFullMask : (1u << 8 * inst.vec) - 1;
  for (unsigned l = 0; l < 8u * inst.vec; ++l) {
    u64 a = w.laneValue(base, l) + u64(inst.offset);
    if (inst.space == Space::Generic)
      a = withoutWindow(a);
    a = ownOffset(w, inst, int(l), a);
    boundShared(w, inst, int(l), a, 16);
    address[l] = u32(a);
  }
  AccessKind kind;
  kind.write = write;
  kind.collective = true;
  checkShared(w, inst, lanes, address, 16, kind);
  if (w.machine->options.profile)
    profileShared(w, inst, lanes, address, 16, write);
}

// Lane l holds of each matrix row l/4, columns 2(l%4) and the next; with
// .trans these are column and rows.
Flow ldmatrix(Warp &w, const Inst &inst, u32 mask) {
  needAll(w, inst, mask);
  u32 address[kWarpSize];
  rows(w, inst, inst.ops[inst.vec], false, address);
  const u8 *shared = w.block->shared.data();
  for (unsigned i = 0; i < inst.vec; ++i) {
    u32 *d = w.words(inst.ops[i]);
    u16 matrix[8][8];
    for (unsigned r = 0; r < 8; ++r)
      std::memcpy(matrix[r], shared + address[8 * i + r], 16);
    for (unsigned l = 0; l < kWarpSize; ++l) {
      unsigned r = l / 4, c = 2 * (l % 4);
      d[l] = inst.a ? u32(matrix[c][r]) | u32(matrix[c + 1][r]) << 16
                    : u32(matrix[r][c]) | u32(matrix[r][c + 1]) << 16;
    }
  }
  return Flow::Next;
}

Flow stmatrix(Warp &w, const Inst &inst, u32 mask) {
  needAll(w, inst, mask);
  u32 address[kWarpSize];
  rows(w, inst, inst.ops[0], true, address);
  u8 *shared = w.block->shared.data();
  for (unsigned i = 0; i < inst.vec; ++i) {
    const u32 *s = w.words(inst.ops[1 + i]);
    u16 matrix[8][8];
    for (unsigned l = 0; l < kWarpSize; ++l) {
      unsigned r = l / 4, c = 2 * (l % 4);
      (inst.a ? matrix[c][r] : matrix[r][c]) = u16(s[l]);
      (inst.a ? matrix[c + 1][r] : matrix[r][c + 1]) = u16(s[l] >> 16);
    }
    for (unsigned r = 0; r < 8; ++r)
      std::memcpy(shared + address[8 * i + r], matrix[r], 16);
  }
  ++w.work;
  return Flow::Next;
}

// movmatrix: an 8x8 matrix transposed across the warp (9.7.14.5.17).
Flow movmatrix(Warp &w, const Inst &inst, u32 mask) {
  needAll(w, inst, mask);
  u16 matrix[8][8];
  const u32 *s = w.words(inst.ops[1]);
  for (unsigned l = 0; l < kWarpSize; ++l) {
    matrix[l / 4][2 * (l % 4)] = u16(s[l]);
    matrix[l / 4][2 * (l % 4) + 1] = u16(s[l] >> 16);
  }
  u32 *d = w.words(inst.ops[0]);
  for (unsigned l = 0; l < kWarpSize; ++l)
    d[l] = u32(matrix[2 * (l % 4)][l / 4]) | u32(matrix[2 * (l % 4) + 1][l / 4])
                                                 << 16;
  return Flow::Next;
}

// Operands: d x4, a x(k/4), b x(k/8), c x4. Inst: a = k, b = bf16.
Flow mma(Warp &w, const Inst &inst, u32 mask) {
  needAll(w, inst, mask);
  const unsigned k = unsigned(inst.a), na = k / 4, nb = k / 8;
  u16 a[16 * 16], b[16 * 8];
  float c[16 * 8];
  const Operand *d = inst.ops, *pa = d + 4, *pb = pa + na, *pc = pb + nb;
  // a register 2j + h: row g + 8h, columns 8j + 2t and the next.
  for (unsigned r = 0; r < na; ++r) {
    const u32 *s = w.words(pa[r]);
    for (unsigned l = 0; l < kWarpSize; ++l) {
      unsigned at = (l / 4 + 8 * (r & 1)) * k + 8 * (r / 2) + 2 * (l % 4);
      a[at] = u16(s[l]);
      a[at + 1] = u16(s[l] >> 16);
    }
  }
  // b register j: rows 8j + 2t and the next, column g.
  for (unsigned r = 0; r < nb; ++r) {
    const u32 *s = w.words(pb[r]);
    for (unsigned l = 0; l < kWarpSize; ++l) {
      unsigned at = (8 * r + 2 * (l % 4)) * 8 + l / 4;
      b[at] = u16(s[l]);
      b[at + 8] = u16(s[l] >> 16);
    }
  }
  auto place = [](unsigned r, unsigned l) {
    return (l / 4 + 8 * (r / 2)) * 8 + 2 * (l % 4) + (r & 1);
  };
  for (unsigned r = 0; r < 4; ++r) {
    const u32 *s = w.words(pc[r]);
    for (unsigned l = 0; l < kWarpSize; ++l)
      c[place(r, l)] = asFloat(s[l]);
  }
  multiplyAdd(a, b, c, 8, k, inst.b, w.machine->options.capability);
  for (unsigned r = 0; r < 4; ++r) {
    u32 *s = w.words(d[r]);
    for (unsigned l = 0; l < kWarpSize; ++l)
      s[l] = asBits(c[place(r, l)]);
  }
  if (LineProfile *line = w.machine->profileOf(w, inst)) {
    line->tensorOperations += 2 * 16 * 8 * k;
    w.machine->result.profile.tensorOperations += 2 * 16 * 8 * k;
  }
  return Flow::Next;
}

void registers(Decoder &d, size_t index, size_t count, Role role) {
  const RawOperand &v = d.at(index);
  if (v.kind != RawOperand::Vector || v.elements.size() != count)
    d.fail("operand " + std::to_string(index) + " needs " +
           std::to_string(count) + " registers in braces");
  for (const RawOperand &e : v.elements)
    d.add(e, Type::B32, role);
}

bool decodeMma(Decoder &d) {
  Inst &inst = d.inst;
  d.need("sync");
  d.need("aligned");
  int shape = d.eatAny({"m16n8k8", "m16n8k16"});
  d.need("row");
  d.need("col");
  Type td = d.type(), ta = d.type(), tb = d.type(), tc = d.type();
  if (shape < 0 || td != Type::F32 || tc != Type::F32 || ta != tb ||
      (ta != Type::F16 && ta != Type::BF16))
    d.fail("only m16n8k8 and m16n8k16 with f32.{f16,bf16} are known");
  inst.a = shape == 0 ? 8 : 16;
  inst.b = ta == Type::BF16;
  d.operands(4);
  registers(d, 0, 4, Role::Destination);
  registers(d, 1, size_t(inst.a) / 4, Role::Source);
  if (inst.a == 8 && d.at(2).kind != RawOperand::Vector)
    d.src(2, Type::B32);
  else
    registers(d, 2, size_t(inst.a) / 8, Role::Source);
  registers(d, 3, 4, Role::Source);
  d.emit(mma, Category::TensorCore);
  return true;
}

} // namespace

bool decodeMatrix(Decoder &d) {
  Inst &inst = d.inst;
  if (d.root == "mma")
    return decodeMma(d);
  bool load = d.root == "ldmatrix";
  d.need("sync");
  d.need("aligned");
  d.need("m8n8");
  if (d.root == "movmatrix") {
    d.need("trans");
    d.need("b16");
    d.operands(2);
    d.dst(0, Type::B32);
    d.src(1, Type::B32);
    d.emit(movmatrix, Category::Shuffle);
    return true;
  }
  if (!load && d.builder.program.capability < 90)
    d.fail("stmatrix needs sm_90");
  int count = d.eatAny({"x1", "x2", "x4"});
  if (count < 0)
    return false;
  inst.vec = u8(1u << count);
  inst.a = d.eat("trans");
  inst.space =
      d.eat("shared") || d.eat("shared::cta") ? Space::Shared : Space::Generic;
  d.need("b16");
  d.operands(2);
  auto values = [&](size_t index, Role role) {
    if (inst.vec == 1 && d.at(index).kind != RawOperand::Vector)
      return d.add(d.at(index), Type::B32, role);
    registers(d, index, inst.vec, role);
  };
  if (load) {
    values(0, Role::Destination);
    d.address(1);
    d.emit(ldmatrix, Category::MatrixLoad);
  } else {
    d.address(0);
    values(1, Role::Source);
    d.emit(stmatrix, Category::MatrixLoad);
  }
  return true;
}

} // namespace fa2::sim
