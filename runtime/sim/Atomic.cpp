//===- Atomic.cpp - atom and red (PTX ISA 9.7.13.6, 9.7.13.7) -------------===//

#include "Access.h"
#include "Lanes.h"
#include "Order.h"

namespace fa2::sim {
namespace {

enum Op : s32 { Add, Min, Max, And, Or, Xor, Exch, Inc, Dec, Cas };

template <class T> T combine(s32 op, T old, T b, T c) {
  switch (op) {
  case Min:
    return std::min(old, b);
  case Max:
    return std::max(old, b);
  case Exch:
    return b;
  case Cas:
    return old == b ? c : old;
  default:
    break;
  }
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (op) {
    case Add:
      return T(U(old) + U(b));
    case And:
      return old & b;
    case Or:
      return old | b;
    case Xor:
      return old ^ b;
    case Inc:
      return old >= b ? 0 : old + 1;
    case Dec:
      return old == 0 || old > b ? b : old - 1;
    default:
      break;
    }
  }
  return T(old + b);
}

u64 apply(const Inst &inst, bool shared, u64 old, u64 b, u64 c) {
  switch (inst.type) {
  case Type::U32:
  case Type::B32:
    return combine<u32>(inst.a, u32(old), u32(b), u32(c));
  case Type::S32:
    return u32(combine<s32>(inst.a, s32(old), s32(b), s32(c)));
  case Type::S64:
    return u64(combine<s64>(inst.a, s64(old), s64(b), s64(c)));
  case Type::F32: {
    // Subnormals are kept in shared memory, and zeros of their sign in global
    // memory (PTX ISA, atom; red's machine instruction says FTZ).
    float x = asFloat(u32(old)), y = asFloat(u32(b));
    float r = shared ? x + y : flush(flush(x) + flush(y));
    return asBits(canonical(r));
  }
  case Type::F64:
    return std::bit_cast<u64>(std::bit_cast<double>(old) +
                              std::bit_cast<double>(b));
  case Type::F16:
    return F16::from(double(halfToFloat(u16(old))) + halfToFloat(u16(b))).bits;
  case Type::BF16:
    return BF16::from(double(bfloatToFloat(u16(old))) + bfloatToFloat(u16(b)))
        .bits;
  default:
    return combine<u64>(inst.a, old, b, c);
  }
}

// Operands: [d x vec], base, b x vec, [c]. Inst: a = operation, b = returns,
// vec elements, each its own atomic operation; c = packed halves a word.
Flow atomic(Warp &w, const Inst &inst, u32 mask) {
  Machine &m = *w.machine;
  unsigned results = inst.b ? inst.vec : 0;
  const Operand &base = inst.ops[results];
  u32 size = inst.c ? 4 : bytesOf(inst.type), bytes = size * inst.vec;
  u64 address[kWarpSize];
  u32 offset[kWarpSize];
  bool shared = inst.space == Space::Shared;
  for (u32 rest = mask; rest; rest &= rest - 1) {
    unsigned l = unsigned(std::countr_zero(rest));
    u64 a = w.laneValue(base, l) + u64(inst.offset);
    if (inst.space == Space::Generic) {
      shared = (a & kWindowMask) == kSharedWindow;
      a = withoutWindow(a);
    }
    if (shared)
      a = ownOffset(w, inst, int(l), a);
    address[l] = a;
    offset[l] = u32(a);
  }
  bool release = inst.sem == Sem::Release || inst.sem == Sem::AcqRel;
  if (release)
    checkRelease(w, inst, mask, true);
  AccessKind kind;
  kind.write = kind.atomic = kind.strong = true;
  kind.rmwFloat = isFloat(inst.type) && inst.a == Add;
  if (shared) {
    for (u32 rest = mask; rest; rest &= rest - 1) {
      int l = std::countr_zero(rest);
      if (address[l] >> 32)
        boundShared(w, inst, l, address[l], bytes);
    }
    checkShared(w, inst, mask, offset, bytes, kind);
  } else {
    checkGlobal(w, inst, mask, address, bytes, kind);
    if (m.options.profile)
      profileGlobal(w, inst, mask, address, bytes, true);
    // Read before it is written: an acquire sees what was there.
    if (inst.b)
      observe(w, inst, address, mask);
    publish(w, inst, address, mask, true);
    ++m.globalVersion;
  }
  ++w.work;
  // Lanes in an order that the seed decides: they are unordered.
  u32 first = mask & (mask - 1) ? m.random.below(kWarpSize) : 0;
  for (u32 k = 0; k < kWarpSize; ++k) {
    u32 l = (k + first) % kWarpSize;
    if (!(mask >> l & 1))
      continue;
    u8 *at = shared ? w.block->shared.data() + offset[l]
                    : reinterpret_cast<u8 *>(address[l]);
    for (unsigned e = 0; e < inst.vec; ++e) {
      u64 old = 0;
      std::memcpy(&old, at + size * e, size);
      u64 b = w.laneValue(inst.ops[results + 1 + e], l);
      u64 c = inst.a == Cas ? w.laneValue(inst.ops[results + 2], l) : 0;
      u64 value;
      if (inst.c)
        value = apply(inst, shared, old & 0xffff, b & 0xffff, 0) |
                apply(inst, shared, old >> 16, b >> 16, 0) << 16;
      else
        value = apply(inst, shared, old, b, c);
      std::memcpy(at + size * e, &value, size);
      if (inst.b && !inst.ops[e].sink) {
        if (inst.ops[e].bytes == 8)
          putLane<u64>(w.words(inst.ops[e]), l, old);
        else
          w.words(inst.ops[e])[l] = u32(old);
      }
    }
  }
  if (release)
    advanceEpoch(w);
  return Flow::Next;
}

} // namespace

bool decodeAtomic(Decoder &d) {
  Inst &inst = d.inst;
  bool returns = d.root == "atom";
  inst.b = returns;
  static constexpr Sem sems[] = {Sem::Relaxed, Sem::Acquire, Sem::Release,
                                 Sem::AcqRel};
  int sem = d.eatAny({"relaxed", "acquire", "release", "acq_rel"});
  inst.sem = sem < 0 ? Sem::Relaxed : sems[sem];
  if (!returns && (inst.sem == Sem::Acquire || inst.sem == Sem::AcqRel))
    return false;
  d.eatAny({"cta", "cluster", "gpu", "sys"});
  int space = d.eatAny({"global", "shared", "shared::cta"});
  inst.space = space < 0    ? Space::Generic
               : space == 0 ? Space::Global
                            : Space::Shared;
  inst.a = d.eatAny(
      {"add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas"});
  if (inst.a < 0)
    return false;
  d.eat("noftz");
  bool hint = d.eat("L2::cache_hint");
  inst.vec = d.eat("v2") ? 2 : d.eat("v4") ? 4 : 1;
  Type t = d.type();
  inst.type = t;
  if (t == Type::F16x2 || t == Type::BF16x2) {
    inst.c = 1;
    inst.type = t == Type::F16x2 ? Type::F16 : Type::BF16;
  }
  bool fp = isFloat(t);
  if ((fp && inst.a != Add) || bytesOf(t) < (fp ? 2 : 4) ||
      (inst.vec > 1 && (t != Type::F32 || inst.space != Space::Global ||
                        d.builder.program.capability < 90)) ||
      t == Type::TF32 || t == Type::Pred || (bytesOf(t) == 2 && fp == false))
    return false;
  if ((inst.a == Inc || inst.a == Dec) && t != Type::U32)
    return false;
  size_t first = returns ? 1 : 0;
  d.operands(first + 2 + (inst.a == Cas) + hint);
  auto values = [&](size_t index, Role role) {
    const RawOperand &v = d.at(index);
    if (inst.vec == 1)
      return d.add(v, t, role);
    if (v.kind != RawOperand::Vector || v.elements.size() != inst.vec)
      d.fail("expected " + std::to_string(inst.vec) + " values");
    for (const RawOperand &e : v.elements)
      d.add(e, t, role);
  };
  if (returns)
    values(0, Role::Destination);
  d.address(first);
  values(first + 1, Role::Source);
  if (inst.a == Cas)
    d.src(first + 2, t);
  if (hint)
    d.src(d.raw.operands.size() - 1, Type::U64);
  inst.sync = true;
  d.emit(atomic, inst.space == Space::Shared ? Category::SharedMemory
                                             : Category::GlobalMemory);
  return true;
}

} // namespace fa2::sim
