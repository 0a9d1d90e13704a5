//===- Lanes.h - Loops over a warp's lanes ---------------------*- C++ -*-===//
//
// Each handler is one loop over 32 lanes; with a full mask it has no branch in
// it. Source and destination may be the same register, never shifted ones.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RUNTIME_SIM_LANES_H
#define FA2_RUNTIME_SIM_LANES_H

#include "Decoder.h"
#include "Machine.h"
#include "Numerics.h"

namespace fa2::sim {

/// A lane's slot is 8 bytes for 64-bit types and 4 for all others; 16-bit
/// values stand in the low half, the rest is zero.
template <class T> inline T getLane(const u32 *words, unsigned lane) {
  if constexpr (sizeof(T) == 8)
    return reinterpret_cast<const T *>(words)[lane];
  else if constexpr (sizeof(T) == 4)
    return reinterpret_cast<const T *>(words)[lane];
  else
    return std::bit_cast<T>(u16(words[lane]));
}
template <class T> inline void putLane(u32 *words, unsigned lane, T value) {
  if constexpr (sizeof(T) == 8)
    reinterpret_cast<T *>(words)[lane] = value;
  else if constexpr (sizeof(T) == 4)
    reinterpret_cast<T *>(words)[lane] = value;
  else
    words[lane] = std::bit_cast<u16>(value);
}

template <class Body> inline void forLanes(u32 mask, Body body) {
  if (mask == kFullMask) {
#ifndef __clang__ // which warns of every loop that it cannot vectorise
#pragma GCC ivdep
#endif
    for (unsigned lane = 0; lane < kWarpSize; ++lane)
      body(lane);
  } else {
    for (; mask; mask &= mask - 1)
      body(unsigned(std::countr_zero(mask)));
  }
}

/// Half formats as distinct types.
struct F16 {
  u16 bits;
  float value() const { return halfToFloat(bits); }
  static F16 from(float x) { return {floatToHalf(x)}; }
  static F16 from(double x) {
    return {toSmall(x, kHalf, Round::Nearest, false)};
  }
  static F16 fma(F16 a, F16 b, F16 c) {
    return {fmaSmall(a.value(), b.value(), c.value(), kHalf)};
  }
};
struct BF16 {
  u16 bits;
  float value() const { return bfloatToFloat(bits); }
  static BF16 from(float x) { return {floatToBfloat(x)}; }
  static BF16 from(double x) {
    return {toSmall(x, kBfloat, Round::Nearest, false)};
  }
  static BF16 fma(BF16 a, BF16 b, BF16 c) {
    return {fmaSmall(a.value(), b.value(), c.value(), kBfloat)};
  }
};
/// Two of them in 32 bits.
template <class H> struct Pair { H lo, hi; };
static_assert(sizeof(Pair<F16>) == 4);

template <class D, class A, class F>
Flow unary(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]);
  forLanes(mask,
           [&](unsigned l) { putLane<D>(d, l, F::apply(getLane<A>(a, l))); });
  return Flow::Next;
}
template <class D, class A, class B, class F>
Flow binary(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]), *b = w.words(inst.ops[2]);
  forLanes(mask, [&](unsigned l) {
    putLane<D>(d, l, F::apply(getLane<A>(a, l), getLane<B>(b, l)));
  });
  return Flow::Next;
}
template <class D, class A, class C, class F>
Flow ternary(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]), *b = w.words(inst.ops[2]);
  const u32 *c = w.words(inst.ops[3]);
  forLanes(mask, [&](unsigned l) {
    putLane<D>(d, l,
               F::apply(getLane<A>(a, l), getLane<A>(b, l), getLane<C>(c, l)));
  });
  return Flow::Next;
}

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_LANES_H
