//===- Convert.cpp - cvt and cvta (PTX ISA 9.7.9.21, 9.7.9.20) ------------===//

#include "Lanes.h"

#include <limits>

namespace fa2::sim {
namespace {

// Inst: type = destination, type2 = source, a = Round, b = flags below,
// c = round to an integral value.
enum Flags { Ftz = 1, Sat = 2, Relu = 4, Integral = 8, SatFinite = 16 };

double roundIntegral(double x, Round round) {
  switch (round) {
  case Round::Nearest:
    return std::nearbyint(x); // ties to even
  case Round::Zero:
    return std::trunc(x);
  case Round::Down:
    return std::floor(x);
  case Round::Up:
    return std::ceil(x);
  case Round::NearestAway:
    return std::round(x);
  }
  return x;
}

double readFloat(u64 raw, Type t) {
  switch (t) {
  case Type::F16:
    return halfToFloat(u16(raw));
  case Type::BF16:
    return bfloatToFloat(u16(raw));
  case Type::F64:
    return std::bit_cast<double>(raw);
  default:
    return asFloat(u32(raw));
  }
}

u64 writeFloat(double x, Type t, Round round, int flags) {
  if (flags & Relu && (x < 0 || (x == 0 && std::signbit(x))))
    x = 0;
  if (flags & Sat)
    x = x > 0 ? std::min(x, 1.0) : 0.0;
  bool finite = flags & SatFinite;
  switch (t) {
  case Type::F16:
    return toSmall(x, kHalf, round, finite);
  case Type::BF16:
    return toSmall(x, kBfloat, round, finite);
  case Type::F64:
    return x == x ? std::bit_cast<u64>(x) : u64(0x7fffffffffffffffull);
  case Type::TF32: { // 10 bits of fraction, the rest zero
    float f = float(x);
    if (std::isnan(f))
      return kCanonicalNan;
    u32 bits = asBits(f);
    if (std::isinf(f))
      return bits;
    bits += round == Round::NearestAway ? 0x1000u
            : round == Round::Nearest   ? 0xfffu + (bits >> 13 & 1)
                                        : 0;
    return bits & ~0x1fffu;
  }
  default: {
    float f = toFloat(x, round);
    if (flags & Ftz)
      f = flush(f);
    return asBits(canonical(f));
  }
  }
}

s64 signExtend(u64 raw, Type t) {
  switch (t) {
  case Type::S8:
    return s8(raw);
  case Type::U8:
    return u8(raw);
  case Type::S16:
    return s16(raw);
  case Type::U16:
    return u16(raw);
  case Type::S32:
    return s32(raw);
  case Type::U32:
    return u32(raw);
  default:
    return s64(raw);
  }
}

// Integer results narrower than the register are extended to it by their
// sign (9.4.1).
u64 clampInteger(double x, Type t) {
  if (std::isnan(x))
    return 0;
  int bits = int(bytesOf(t)) * 8;
  double high = std::ldexp(1.0, isSigned(t) ? bits - 1 : bits);
  double low = isSigned(t) ? -high : 0;
  if (x >= high)
    return isSigned(t) ? (u64(1) << (bits - 1)) - 1
                       : (bits == 64 ? ~u64(0) : (u64(1) << bits) - 1);
  if (x <= low)
    return isSigned(t) ? u64(s64(low)) : 0;
  return isSigned(t) ? u64(s64(x)) : u64(x);
}
u64 clampInteger(s64 v, bool sourceUnsigned64, Type t) {
  int bits = int(bytesOf(t)) * 8;
  if (isSigned(t)) {
    s64 high = s64((u64(1) << (bits - 1)) - 1);
    if (sourceUnsigned64 && v < 0)
      return u64(high);
    return u64(std::clamp(v, -high - 1, high));
  }
  if (v < 0 && !sourceUnsigned64)
    return 0;
  u64 high = bits == 64 ? ~u64(0) : (u64(1) << bits) - 1;
  return std::min(u64(v), high);
}

u64 convert(u64 raw, const Inst &inst) {
  Type d = inst.type, s = inst.type2;
  Round round = Round(inst.a);
  if (isFloat(s)) {
    double x = readFloat(raw, s);
    if (inst.b & Ftz && (s == Type::F32))
      x = flush(float(x));
    if (inst.b & Integral)
      x = roundIntegral(x, round);
    if (!isFloat(d))
      return clampInteger(x, d);
    return writeFloat(x, d, round, inst.b);
  }
  s64 v = signExtend(raw, s);
  if (isFloat(d)) {
    // 64-bit integers to f32 are rounded once: directly from the integer.
    if (d == Type::F32 && !(inst.b & Sat) && round == Round::Nearest)
      return asBits(s == Type::U64 ? float(u64(v)) : float(v));
    if (d == Type::F64)
      return std::bit_cast<u64>(s == Type::U64 ? double(u64(v)) : double(v));
    double x = s == Type::U64 ? double(u64(v)) : double(v);
    return writeFloat(x, d, round, inst.b);
  }
  if (inst.b & Sat)
    v = s64(clampInteger(v, s == Type::U64, d));
  return u64(signExtend(u64(v), d));
}

Flow cvt(Warp &w, const Inst &inst, u32 mask) {
  const Operand &d = inst.ops[0], &a = inst.ops[1];
  u32 *out = w.words(d);
  const u32 *in = w.words(a);
  bool narrow = bytesOf(inst.type) <= 2 && isFloat(inst.type);
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    u64 raw = a.bytes == 8 ? getLane<u64>(in, l) : in[l];
    u64 r = convert(raw, inst);
    if (d.bytes == 8)
      putLane<u64>(out, l, r);
    else
      out[l] = narrow || inst.d == 2 ? u32(r) & 0xffff : u32(r);
  }
  return Flow::Next;
}

template <class D, class S> struct Plain {
  static D apply(S a) { return D(a); }
};

// cvt.rn.{f16x2,bf16x2}.f32 d, a, b: a is the upper half.
template <class H, bool Relu> struct Pack {
  static H one(float x) {
    if (Relu)
      x = x > 0 || std::isnan(x) ? x : 0.0f;
    return H::from(x);
  }
  static Pair<H> apply(float a, float b) { return {one(b), one(a)}; }
};
Flow packGeneral(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]), *b = w.words(inst.ops[2]);
  Type t = inst.type == Type::F16x2 ? Type::F16 : Type::BF16;
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    d[l] = u32(writeFloat(asFloat(b[l]), t, Round(inst.a), inst.b)) |
           u32(writeFloat(asFloat(a[l]), t, Round(inst.a), inst.b)) << 16;
  }
  return Flow::Next;
}
template <class H> struct FromFloat {
  static H apply(float a) { return H::from(a); }
};
template <class H> struct ToFloat {
  static float apply(H a) { return canonical(a.value()); }
};

// Windows of the generic space; global addresses are generic ones.
Flow cvta(Warp &w, const Inst &inst, u32 mask) {
  u64 window = u64(inst.a) << 56;
  u64 *d = reinterpret_cast<u64 *>(w.words(inst.ops[0]));
  const u64 *a = reinterpret_cast<const u64 *>(w.words(inst.ops[1]));
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    u64 value = a[l];
    if (inst.b == 0)
      value |= window;
    else if ((value & kWindowMask) != window)
      w.machine->fatal(11, w, inst, int(l), "generic", value,
                       "this generic address is not in the space it is "
                       "converted to");
    else
      value &= window ? ~kWindowMask : ~u64(0);
    d[l] = value;
  }
  return Flow::Next;
}

bool decodeCvta(Decoder &d) {
  bool to = d.eat("to");
  int space = d.eatAny({"global", "shared", "local", "param", "const"});
  if (space < 0)
    // One window: the addresses of shared::cta are some of shared::cluster's.
    space = d.eatAny({"shared::cta", "shared::cluster"}) >= 0 ? 1 : -1;
  if (space < 0 || space == 4)
    return false;
  d.inst.a = space; // as the window numbers
  d.inst.b = to;
  d.need("u64");
  d.operands(2);
  d.dst(0, Type::U64);
  d.src(1, Type::U64);
  d.emit(cvta, Category::Move);
  return true;
}

// mapa (9.7.9.22): d, address, rank. Inst: a = generic addresses.
Flow mapa(Warp &w, const Inst &inst, u32 mask) {
  u32 size = w.block->grid->clusterBlocks;
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    u64 address = w.laneValue(inst.ops[1], l);
    u32 rank = u32(w.laneValue(inst.ops[2], l));
    if (rank >= size)
      w.machine->fatal(13, w, inst, int(l), "cluster", rank,
                       "rank " + std::to_string(rank) +
                           " is not that of a block; the cluster has " +
                           std::to_string(size));
    if (inst.a && (address & kWindowMask) != kSharedWindow)
      w.machine->fatal(13, w, inst, int(l), "generic", address,
                       "this generic address is not in shared memory");
    u64 ranks = u64(kMaxCluster - 1) << kRankShift;
    address = (address & ~ranks) | u64(rank) << kRankShift;
    if (inst.ops[0].bytes == 8)
      putLane<u64>(w.words(inst.ops[0]), l, address);
    else
      w.words(inst.ops[0])[l] = u32(address);
  }
  return Flow::Next;
}

// getctarank (9.7.9.23): d, address. Inst: a = generic addresses.
Flow rankOf(Warp &w, const Inst &inst, u32 mask) {
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    u64 address = w.laneValue(inst.ops[1], l);
    if (inst.a && (address & kWindowMask) != kSharedWindow)
      w.machine->fatal(13, w, inst, int(l), "generic", address,
                       "this generic address is not in shared memory");
    w.words(inst.ops[0])[l] = u32(withoutWindow(address) >> kRankShift);
  }
  return Flow::Next;
}

bool decodeRank(Decoder &d) {
  if (d.builder.program.capability < 90)
    d.fail("clusters need sm_90");
  d.inst.a = !d.eat("shared::cluster");
  Type t = d.type();
  if ((t != Type::U32 && t != Type::U64) || (d.inst.a && t != Type::U64))
    return false;
  bool maps = d.root == "mapa";
  d.operands(maps ? 3 : 2);
  d.dst(0, maps ? t : Type::U32);
  d.src(1, t);
  if (maps)
    d.src(2, Type::U32);
  d.emit(maps ? mapa : rankOf, Category::Move);
  return true;
}

} // namespace

bool decodeConvert(Decoder &d) {
  if (d.root == "mapa" || d.root == "getctarank")
    return decodeRank(d);
  if (d.root == "cvta")
    return decodeCvta(d);
  static constexpr Round rounds[] = {Round::Nearest, Round::Zero, Round::Down,
                                     Round::Up, Round::NearestAway};
  int integral = d.eatAny({"rni", "rzi", "rmi", "rpi"});
  int direct = d.eatAny({"rn", "rz", "rm", "rp", "rna"});
  Inst &inst = d.inst;
  inst.a = s32(rounds[integral >= 0 ? integral : direct >= 0 ? direct : 0]);
  if (d.eat("ftz"))
    inst.b |= Ftz;
  if (d.eat("sat"))
    inst.b |= Sat;
  if (d.eat("relu"))
    inst.b |= Relu;
  if (d.eat("satfinite"))
    inst.b |= SatFinite;
  if (integral >= 0)
    inst.b |= Integral;
  // Types in order: destination, then source. Types are taken first to last.
  Type to = d.type(), from = d.type();
  inst.type = to;
  inst.type2 = from;
  if (to == Type::Pred || from == Type::Pred || to == Type::B32)
    return false;
  if (to == Type::F16x2 || to == Type::BF16x2) {
    if (from != Type::F32 || direct < 0 || direct > 1)
      return false;
    d.operands(3);
    d.dst(0, to);
    d.src(1, from);
    d.src(2, from);
    bool plain = direct == 0 && (inst.b & ~Relu) == 0;
    bool relu = inst.b & Relu;
    Handler fn = packGeneral;
    if (plain && to == Type::F16x2)
      fn = relu ? binary<Pair<F16>, float, float, Pack<F16, true>>
                : binary<Pair<F16>, float, float, Pack<F16, false>>;
    if (plain && to == Type::BF16x2)
      fn = relu ? binary<Pair<BF16>, float, float, Pack<BF16, true>>
                : binary<Pair<BF16>, float, float, Pack<BF16, false>>;
    d.emit(fn, Category::Convert);
    return true;
  }
  bool narrows = isFloat(to) && isFloat(from) && bytesOf(to) < bytesOf(from);
  if ((isFloat(from) && !isFloat(to) && integral < 0) ||
      (!isFloat(from) && isFloat(to) && direct < 0) ||
      ((narrows || to == Type::TF32) && direct < 0))
    d.fail("expected a rounding modifier");
  d.operands(2);
  d.addRelaxed(d.at(0), to, Role::Destination);
  d.addRelaxed(d.at(1), from, Role::Source);
  const Operand *ops = &d.builder.kernel.operands[inst.firstOp];
  bool exact = ops[0].bytes == (bytesOf(to) == 8 ? 8 : 4) &&
               ops[1].bytes == (bytesOf(from) == 8 ? 8 : 4);
  // A 16-bit destination register keeps its upper half zero.
  inst.d = 0;
  if (!isFloat(to) && d.at(0).kind == RawOperand::Symbol &&
      bytesOf(d.builder.registerNamed(d.raw.line, d.at(0).name).type) == 2)
    inst.d = 2;
  Handler fn = cvt;
  if (exact && inst.b == 0) {
    if (from == Type::U32 && bytesOf(to) == 8 && !isFloat(to))
      fn = unary<u64, u32, Plain<u64, u32>>;
    else if (from == Type::S32 && bytesOf(to) == 8 && !isFloat(to))
      fn = unary<s64, s32, Plain<s64, s32>>;
    else if (!isFloat(to) && !isFloat(from) && bytesOf(to) == 4 &&
             bytesOf(from) == 8)
      fn = unary<u32, u64, Plain<u32, u64>>;
    else if (to == Type::BF16 && from == Type::F32 && direct == 0)
      fn = unary<BF16, float, FromFloat<BF16>>;
    else if (to == Type::F16 && from == Type::F32 && direct == 0)
      fn = unary<F16, float, FromFloat<F16>>;
    else if (to == Type::F32 && from == Type::BF16)
      fn = unary<float, BF16, ToFloat<BF16>>;
    else if (to == Type::F32 && from == Type::F16)
      fn = unary<float, F16, ToFloat<F16>>;
  }
  d.emit(fn, Category::Convert);
  return true;
}

} // namespace fa2::sim
