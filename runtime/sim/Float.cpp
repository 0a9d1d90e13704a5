//===- Float.cpp - Floating-point instructions ----------------------------===//
//
// PTX ISA 9.7.3 (f32, f64), 9.7.4 (f16, bf16). Results that are NaN are the
// canonical NaN (9.7.3: 0x7fffffff; 9.7.4: 0x7fff).
//
//===----------------------------------------------------------------------===//

#include "Lanes.h"
#include <limits>

namespace fa2::sim {
namespace {

template <bool Ftz> struct Fold {
  template <class T> static T in(T x) { return Ftz ? flush(x) : x; }
  template <class T> static T out(T x) { return canonical(Ftz ? flush(x) : x); }
};
template <bool Sat, class T> T saturated(T x) {
  if constexpr (Sat)
    return x > 0 ? (x < 1 ? x : T(1)) : T(0); // NaN becomes +0
  return x;
}

// a b + c under .ftz: a result that is subnormal once rounded to 24 bits with
// an unbounded exponent is flushed, even where the subnormal grid would round
// it up to the smallest normal number (as an H200 does).
template <bool Ftz, class T> T fused(T a, T b, T c) {
  T rounded = std::fma(a, b, c);
  if constexpr (Ftz && std::is_same_v<T, float>) {
    constexpr float kSmallest = std::numeric_limits<float>::min();
    // Half way between the largest 24-bit number below it and 2^-126.
    constexpr long double kBound = kSmallest * (1.0L - 0x1p-25L);
    if (std::fabs(rounded) == kSmallest &&
        std::fabs(std::fma((long double)a, (long double)b, (long double)c)) <
            kBound)
      return std::copysign(0.0f, rounded);
  }
  return rounded;
}

template <class T, bool Ftz, bool Sat> struct AddF {
  static T apply(T a, T b) {
    using F = Fold<Ftz>;
    return saturated<Sat>(F::out(F::in(a) + F::in(b)));
  }
};
template <class T, bool Ftz, bool Sat> struct SubF {
  static T apply(T a, T b) {
    using F = Fold<Ftz>;
    return saturated<Sat>(F::out(F::in(a)-F::in(b)));
  }
};
template <class T, bool Ftz, bool Sat> struct MulF {
  static T apply(T a, T b) {
    using F = Fold<Ftz>;
    T x = F::in(a), y = F::in(b);
    // -0 keeps the sign of a zero product.
    if constexpr (Ftz)
      return saturated<Sat>(F::out(fused<Ftz, T>(x, y, T(-0.0))));
    return saturated<Sat>(F::out(x * y));
  }
};
template <class T, bool Ftz, bool Sat> struct FmaF {
  static T apply(T a, T b, T c) {
    using F = Fold<Ftz>;
    return saturated<Sat>(F::out(fused<Ftz, T>(F::in(a), F::in(b), F::in(c))));
  }
};
template <class T, bool Ftz, bool Sat> struct DivF {
  static T apply(T a, T b) {
    using F = Fold<Ftz>;
    return F::out(F::in(a) / F::in(b));
  }
};
template <class T, bool Ftz, bool Sat> struct SqrtF {
  static T apply(T a) { return Fold<Ftz>::out(std::sqrt(Fold<Ftz>::in(a))); }
};
template <class T, bool Ftz, bool Sat> struct RcpF {
  static T apply(T a) { return Fold<Ftz>::out(T(1) / Fold<Ftz>::in(a)); }
};
// neg and abs act on the sign bit; a NaN's payload is unspecified.
template <class T, bool Ftz, bool Sat> struct NegF {
  static T apply(T a) { return -Fold<Ftz>::in(a); }
};
template <class T, bool Ftz, bool Sat> struct AbsF {
  static T apply(T a) { return std::fabs(Fold<Ftz>::in(a)); }
};
// +0 > -0; one NaN gives the other operand, .NaN gives the canonical NaN
// (9.7.3.11, 9.7.3.12).
template <class T> inline T least(T a, T b) {
  return a < b || (a == b && std::signbit(a)) || std::isnan(b) ? a : b;
}
template <class T> inline T greatest(T a, T b) {
  return a > b || (a == b && !std::signbit(a)) || std::isnan(b) ? a : b;
}
template <class T, bool Ftz, bool Nan> struct MinF {
  static T apply(T a, T b) {
    using F = Fold<Ftz>;
    if (Nan && (std::isnan(a) || std::isnan(b)))
      return canonical(T(NAN));
    return canonical(least(F::in(a), F::in(b)));
  }
};
template <class T, bool Ftz, bool Nan> struct MaxF {
  static T apply(T a, T b) {
    using F = Fold<Ftz>;
    if (Nan && (std::isnan(a) || std::isnan(b)))
      return canonical(T(NAN));
    return canonical(greatest(F::in(a), F::in(b)));
  }
};
template <class T, bool, bool> struct CopysignF { // 9.7.3.2: sign of a, |b|
  static T apply(T a, T b) { return std::copysign(b, a); }
};

// Halves: computed in double, rounded once.
template <class H> H fromDouble(double x) { return H::from(x); }
template <class H, bool, bool Sat> struct AddH {
  static H apply(H a, H b) {
    return fromDouble<H>(saturated<Sat>(double(a.value()) + b.value()));
  }
};
template <class H, bool, bool Sat> struct SubH {
  static H apply(H a, H b) {
    return fromDouble<H>(saturated<Sat>(double(a.value()) - b.value()));
  }
};
template <class H, bool, bool Sat> struct MulH {
  static H apply(H a, H b) {
    return fromDouble<H>(saturated<Sat>(double(a.value()) * b.value()));
  }
};
template <class H, bool, bool Relu> struct FmaH {
  static H apply(H a, H b, H c) {
    H r = H::fma(a, b, c);
    if (Relu && (r.bits & 0x8000 || r.value() != r.value()))
      return r.value() != r.value() ? H{kCanonicalNan16} : H{0};
    return r;
  }
};
template <class H, bool, bool> struct NegH {
  static H apply(H a) { return {u16(a.bits ^ 0x8000)}; }
};
template <class H, bool, bool> struct AbsH {
  static H apply(H a) { return {u16(a.bits & 0x7fff)}; }
};
template <class H, bool, bool Nan> struct MinH {
  static H apply(H a, H b) {
    float x = a.value(), y = b.value();
    if ((Nan && (std::isnan(x) || std::isnan(y))) ||
        (std::isnan(x) && std::isnan(y)))
      return {kCanonicalNan16};
    return x < y || (x == y && std::signbit(x)) || std::isnan(y) ? a : b;
  }
};
template <class H, bool, bool Nan> struct MaxH {
  static H apply(H a, H b) {
    float x = a.value(), y = b.value();
    if ((Nan && (std::isnan(x) || std::isnan(y))) ||
        (std::isnan(x) && std::isnan(y)))
      return {kCanonicalNan16};
    return x > y || (x == y && !std::signbit(x)) || std::isnan(y) ? a : b;
  }
};
/// Lifts an operation on a half to two of them.
template <class H, class F> struct Both {
  using P = Pair<H>;
  static P apply(P a) { return {F::apply(a.lo), F::apply(a.hi)}; }
  static P apply(P a, P b) {
    return {F::apply(a.lo, b.lo), F::apply(a.hi, b.hi)};
  }
  static P apply(P a, P b, P c) {
    return {F::apply(a.lo, b.lo, c.lo), F::apply(a.hi, b.hi, c.hi)};
  }
};

/// Instantiates OP for a type and two flags, with `arity` operands.
template <template <class, bool, bool> class OpF,
          template <class, bool, bool> class OpH, int Arity, bool X, bool Y>
Handler pickFlags(Type t) {
  auto wrap = []<class T, class F>() -> Handler {
    if constexpr (Arity == 1)
      return unary<T, T, F>;
    else if constexpr (Arity == 2)
      return binary<T, T, T, F>;
    else
      return ternary<T, T, T, F>;
  };
  switch (t) {
  case Type::F32:
    return wrap.template operator()<float, OpF<float, X, Y>>();
  case Type::F64:
    return wrap.template operator()<double, OpF<double, X, Y>>();
  case Type::F16:
    return wrap.template operator()<F16, OpH<F16, X, Y>>();
  case Type::BF16:
    return wrap.template operator()<BF16, OpH<BF16, X, Y>>();
  case Type::F16x2:
    return wrap.template operator()<Pair<F16>, Both<F16, OpH<F16, X, Y>>>();
  case Type::BF16x2:
    return wrap.template operator()<Pair<BF16>, Both<BF16, OpH<BF16, X, Y>>>();
  default:
    return nullptr;
  }
}
template <template <class, bool, bool> class OpF,
          template <class, bool, bool> class OpH, int Arity>
Handler pick(Type t, bool x, bool y) {
  return x ? (y ? pickFlags<OpF, OpH, Arity, true, true>(t)
                : pickFlags<OpF, OpH, Arity, true, false>(t))
           : (y ? pickFlags<OpF, OpH, Arity, false, true>(t)
                : pickFlags<OpF, OpH, Arity, false, false>(t));
}
// ex2, lg2, rcp, ... .approx{.ftz}.f32: Inst::a the function, b ftz.
Flow approxUnary(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]);
  u64 perturb = w.machine->options.perturbApproximations;
  Approx f = Approx(inst.a);
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    d[l] = asBits(approximate(f, asFloat(a[l]), 0, inst.b, perturb));
  }
  return Flow::Next;
}
// div.approx and div.full (9.7.3.8): 2 ulp.
Flow approxDivide(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]), *b = w.words(inst.ops[2]);
  u64 perturb = w.machine->options.perturbApproximations;
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    d[l] = asBits(approximate(Approx::Div, asFloat(a[l]), asFloat(b[l]), inst.b,
                              perturb));
  }
  return Flow::Next;
}
// ex2.approx.{f16,bf16}{x2}: 9.7.4.10, computed in double and rounded.
template <class H> struct Ex2H {
  static H apply(H a) { return H::from(std::exp2(double(a.value()))); }
};
template <class H> struct TanhH {
  static H apply(H a) { return H::from(std::tanh(double(a.value()))); }
};
// testp.op.f32 (9.7.3.1)
Flow testp(Warp &w, const Inst &inst, u32 mask) {
  const u32 *a = w.words(inst.ops[1]);
  u32 &d = w.predicates[inst.ops[0].slot];
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    float x = asFloat(a[l]);
    int kind = std::fpclassify(x);
    bool r = false;
    switch (inst.a) {
    case 0:
      r = std::isfinite(x);
      break;
    case 1:
      r = kind == FP_INFINITE;
      break;
    case 2:
      r = kind != FP_NAN;
      break;
    case 3:
      r = kind == FP_NAN;
      break;
    case 4:
      r = kind == FP_NORMAL;
      break;
    case 5:
      r = kind == FP_SUBNORMAL;
      break;
    }
    d = (d & ~(1u << l)) | u32(r) << l;
  }
  return Flow::Next;
}

bool finish(Decoder &d, Handler fn, Type t, unsigned sources, Category c) {
  if (!fn)
    return false;
  d.operands(sources + 1);
  d.dst(0, t);
  for (unsigned k = 1; k <= sources; ++k)
    d.src(k, t);
  d.emit(fn, c);
  return true;
}

bool decodeApprox(Decoder &d) {
  Approx f;
  if (d.root == "ex2")
    f = Approx::Ex2;
  else if (d.root == "lg2")
    f = Approx::Lg2;
  else if (d.root == "rcp")
    f = Approx::Rcp;
  else if (d.root == "sqrt")
    f = Approx::Sqrt;
  else if (d.root == "rsqrt")
    f = Approx::Rsqrt;
  else if (d.root == "sin")
    f = Approx::Sin;
  else if (d.root == "cos")
    f = Approx::Cos;
  else
    f = Approx::Tanh;
  d.inst.a = s32(f);
  d.inst.b = d.eat("ftz");
  Type t = d.type();
  if (t == Type::F32)
    return finish(d, approxUnary, t, 1, Category::Special);
  if (f == Approx::Ex2 || f == Approx::Tanh) {
    bool ex2 = f == Approx::Ex2;
    Handler fn = nullptr;
    if (t == Type::F16)
      fn = ex2 ? unary<F16, F16, Ex2H<F16>> : unary<F16, F16, TanhH<F16>>;
    if (t == Type::BF16)
      fn = ex2 ? unary<BF16, BF16, Ex2H<BF16>> : unary<BF16, BF16, TanhH<BF16>>;
    if (t == Type::F16x2)
      fn = ex2 ? unary<Pair<F16>, Pair<F16>, Both<F16, Ex2H<F16>>>
               : unary<Pair<F16>, Pair<F16>, Both<F16, TanhH<F16>>>;
    if (t == Type::BF16x2)
      fn = ex2 ? unary<Pair<BF16>, Pair<BF16>, Both<BF16, Ex2H<BF16>>>
               : unary<Pair<BF16>, Pair<BF16>, Both<BF16, TanhH<BF16>>>;
    return finish(d, fn, t, 1, Category::Special);
  }
  return false;
}

} // namespace

bool decodeFloat(Decoder &d) {
  if (d.root == "testp") {
    d.inst.a = d.eatAny(
        {"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    if (d.inst.a < 0)
      return false;
    d.need("f32");
    d.operands(2);
    d.dst(0, Type::Pred);
    d.src(1, Type::F32);
    d.emit(testp, Category::Predicate);
    return true;
  }
  if (d.root == "ex2" || d.root == "lg2" || d.root == "sin" ||
      d.root == "cos" || d.root == "tanh" || d.root == "rsqrt") {
    d.need("approx");
    return decodeApprox(d);
  }
  if ((d.root == "rcp" || d.root == "sqrt") && d.eat("approx"))
    return decodeApprox(d);
  if (d.root == "div" && (d.eat("full") || d.eat("approx"))) {
    d.inst.b = d.eat("ftz");
    d.need("f32");
    return finish(d, approxDivide, Type::F32, 2, Category::Special);
  }
  int rounding = d.eatAny({"rn", "rz", "rm", "rp"});
  if (rounding > 0)
    d.fail("only .rn rounding is supported");
  bool ftz = d.eat("ftz"), sat = d.eat("sat"), nan = d.eat("NaN");
  bool relu = d.eat("relu");
  Type t = d.type();
  bool wide = t == Type::F32 || t == Type::F64;
  if (ftz && t != Type::F32)
    return false;
  if (nan && d.root != "min" && d.root != "max")
    return false;
  if (relu && (wide || d.root != "fma"))
    return false;
  if (sat && t == Type::F64)
    return false;
  std::string_view r = d.root;
  Category c = Category::Float;
  if (r == "add")
    return finish(d, pick<AddF, AddH, 2>(t, ftz, sat), t, 2, c);
  if (r == "sub")
    return finish(d, pick<SubF, SubH, 2>(t, ftz, sat), t, 2, c);
  if (r == "mul")
    return finish(d, pick<MulF, MulH, 2>(t, ftz, sat), t, 2, c);
  if (r == "fma" || (r == "mad" && wide)) {
    if (rounding < 0)
      return false;
    if (sat && !wide)
      return false;
    return finish(d, pick<FmaF, FmaH, 3>(t, ftz, wide ? sat : relu), t, 3, c);
  }
  if (sat)
    return false;
  if (r == "min")
    return finish(d, pick<MinF, MinH, 2>(t, ftz, nan), t, 2, c);
  if (r == "max")
    return finish(d, pick<MaxF, MaxH, 2>(t, ftz, nan), t, 2, c);
  if (r == "neg")
    return finish(d, pick<NegF, NegH, 1>(t, ftz, false), t, 1, c);
  if (r == "abs")
    return finish(d, pick<AbsF, AbsH, 1>(t, ftz, false), t, 1, c);
  if (!wide)
    return false;
  if (r == "copysign")
    return finish(d, pick<CopysignF, MinH, 2>(t, false, false), t, 2, c);
  if (rounding != 0)
    return false;
  if (r == "div")
    return finish(d, pick<DivF, MinH, 2>(t, ftz, false), t, 2, c);
  if (r == "sqrt")
    return finish(d, pick<SqrtF, NegH, 1>(t, ftz, false), t, 1, c);
  if (r == "rcp")
    return finish(d, pick<RcpF, NegH, 1>(t, ftz, false), t, 1, c);
  return false;
}

} // namespace fa2::sim
