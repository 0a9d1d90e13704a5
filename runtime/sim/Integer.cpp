//===- Integer.cpp - Integer and logic instructions -----------------------===//
//
// PTX ISA 9.7.1 (integer arithmetic) and 9.7.8 (logic and shift). Roots shared
// with floating point (add, mul, ...) go to decodeFloat by their type.
//
//===----------------------------------------------------------------------===//

#include "Lanes.h"

namespace fa2::sim {
namespace {

template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> struct Wider;
template <> struct Wider<s16> { using type = s32; };
template <> struct Wider<u16> { using type = u32; };
template <> struct Wider<s32> { using type = s64; };
template <> struct Wider<u32> { using type = u64; };
template <> struct Wider<s64> { using type = __int128; };
template <> struct Wider<u64> { using type = unsigned __int128; };
template <class T> using Wide = typename Wider<T>::type;

// Wrap-around arithmetic in the unsigned type.
template <class T> struct Add {
  static T apply(T a, T b) { return T(Unsigned<T>(a) + Unsigned<T>(b)); }
};
template <class T> struct Sub {
  static T apply(T a, T b) { return T(Unsigned<T>(a) - Unsigned<T>(b)); }
};
template <class T> struct AddSat {
  static T apply(T a, T b) {
    s64 sum = s64(a) + s64(b);
    return T(std::clamp<s64>(sum, std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max()));
  }
};
template <class T> struct SubSat {
  static T apply(T a, T b) {
    s64 sum = s64(a) - s64(b);
    return T(std::clamp<s64>(sum, std::numeric_limits<T>::min(),
                             std::numeric_limits<T>::max()));
  }
};
template <class T> struct MulLo {
  static T apply(T a, T b) { return T(u64(a) * u64(b)); }
};
template <class T> struct MulHi {
  static T apply(T a, T b) {
    return T(Wide<T>(a) * Wide<T>(b) >> (8 * sizeof(T)));
  }
};
template <class T> struct MulWide {
  static Wide<T> apply(T a, T b) { return Wide<T>(a) * Wide<T>(b); }
};
template <class T> struct MadLo {
  static T apply(T a, T b, T c) { return T(u64(a) * u64(b) + u64(c)); }
};
template <class T> struct MadHi {
  static T apply(T a, T b, T c) {
    return T(u64(MulHi<T>::apply(a, b)) + u64(c));
  }
};
template <class T> struct MadWide {
  static Wide<T> apply(T a, T b, Wide<T> c) {
    return Wide<T>(u64(Wide<T>(a) * Wide<T>(b)) + u64(c));
  }
};
// Division by zero gives an unspecified value (9.7.1.8): all ones here.
template <class T> struct Div {
  static T apply(T a, T b) {
    if (b == 0)
      return T(~Unsigned<T>(0));
    if constexpr (std::is_signed_v<T>)
      if (b == -1)
        return T(0 - Unsigned<T>(a));
    return T(a / b);
  }
};
template <class T> struct Rem {
  static T apply(T a, T b) {
    if (b == 0)
      return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1)
        return 0;
    return T(a % b);
  }
};
template <class T> struct Abs {
  static T apply(T a) { return a < 0 ? T(0 - Unsigned<T>(a)) : a; }
};
template <class T> struct Neg {
  static T apply(T a) { return T(0 - Unsigned<T>(a)); }
};
template <class T> struct Min {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T> struct Max {
  static T apply(T a, T b) { return a < b ? b : a; }
};
/// .relu (PTX ISA, min and max): a negative result becomes 0.
template <class T> struct MinRelu {
  static T apply(T a, T b) { return std::max<T>(std::min(a, b), 0); }
};
template <class T> struct MaxRelu {
  static T apply(T a, T b) { return std::max<T>(std::max(a, b), 0); }
};
template <class T> struct Sad {
  static T apply(T a, T b, T c) {
    return T(Unsigned<T>(c) + (a < b ? Unsigned<T>(b) - Unsigned<T>(a)
                                     : Unsigned<T>(a) - Unsigned<T>(b)));
  }
};
template <class T> struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T> struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T> struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <class T> struct Not {
  static T apply(T a) { return T(~a); }
};
template <class T> struct Cnot {
  static T apply(T a) { return a == 0; }
};
// Amounts beyond the width are clamped to it (9.7.8.6, 9.7.8.7).
template <class T> struct Shl {
  static T apply(T a, u32 b) { return b >= 8 * sizeof(T) ? 0 : T(u64(a) << b); }
};
template <class T> struct Shr {
  static T apply(T a, u32 b) {
    if constexpr (std::is_signed_v<T>)
      return T(a >> std::min<u32>(b, 8 * sizeof(T) - 1));
    return b >= 8 * sizeof(T) ? 0 : T(a >> b);
  }
};
template <bool Left, bool Wrap> struct Shf { // 9.7.8.8
  static u32 apply(u32 a, u32 b, u32 c) {
    u32 n = Wrap ? c & 31 : std::min<u32>(c, 32);
    u64 both = u64(b) << 32 | a;
    return Left ? u32(both << n >> 32) : u32(both >> n);
  }
};
template <class T> struct Bfe { // 9.7.1.20
  static T apply(T a, u32 b, u32 c) {
    constexpr u32 width = 8 * sizeof(T);
    u32 pos = b & 0xff, len = c & 0xff;
    auto bits = Unsigned<T>(a);
    if (len == 0)
      return 0;
    u32 top = std::min(pos + len - 1, width - 1);
    bool fill = std::is_signed_v<T> && (bits >> top & 1);
    Unsigned<T> out = pos < width ? Unsigned<T>(bits >> pos) : 0;
    u32 kept = pos < width ? std::min(len, width - pos) : 0;
    Unsigned<T> mask =
        kept >= width ? ~Unsigned<T>(0) : (Unsigned<T>(1) << kept) - 1;
    out &= mask;
    return T(fill ? out | Unsigned<T>(~mask) : out);
  }
};
template <class T> struct Bfi { // 9.7.1.21
  static T apply(T a, T b, u32 c, u32 d) {
    constexpr u32 width = 8 * sizeof(T);
    u32 pos = c & 0xff, len = d & 0xff;
    if (len == 0 || pos >= width)
      return b;
    T mask = len >= width ? ~T(0) : T((T(1) << len) - 1);
    return T((b & ~T(mask << pos)) | T((a & mask) << pos));
  }
};
template <class T, bool ShiftAmount> struct Bfind { // 9.7.1.17
  static u32 apply(T a) {
    Unsigned<T> bits = a < 0 ? Unsigned<T>(~a) : Unsigned<T>(a);
    if (bits == 0)
      return 0xffffffffu;
    u32 zeros = u32(std::countl_zero(bits));
    return ShiftAmount ? zeros : 8 * sizeof(T) - 1 - zeros;
  }
};
template <class T> struct Brev {
  static T apply(T a) {
    T r = 0;
    for (unsigned k = 0; k < 8 * sizeof(T); ++k)
      r = T(r << 1 | (a >> k & 1));
    return r;
  }
};
template <class T> struct Clz {
  static u32 apply(T a) { return u32(std::countl_zero(a)); }
};
template <class T> struct Popc {
  static u32 apply(T a) { return u32(std::popcount(a)); }
};
struct Prmt { // 9.7.8.11, default mode
  static u32 apply(u32 a, u32 b, u32 c) {
    u64 bytes = u64(b) << 32 | a;
    u32 r = 0;
    for (unsigned k = 0; k < 4; ++k) {
      u32 select = c >> 4 * k & 0xf;
      u32 byte = u32(bytes >> 8 * (select & 7) & 0xff);
      if (select & 8)
        byte = byte & 0x80 ? 0xff : 0;
      r |= byte << 8 * k;
    }
    return r;
  }
};

template <class T> Flow bfi(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]), *b = w.words(inst.ops[2]);
  const u32 *c = w.words(inst.ops[3]), *e = w.words(inst.ops[4]);
  forLanes(mask, [&](unsigned l) {
    putLane<T>(d, l,
               Bfi<T>::apply(getLane<T>(a, l), getLane<T>(b, l), c[l], e[l]));
  });
  return Flow::Next;
}
template <class T> Flow bfe(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]), *b = w.words(inst.ops[2]);
  const u32 *c = w.words(inst.ops[3]);
  forLanes(mask, [&](unsigned l) {
    putLane<T>(d, l, Bfe<T>::apply(getLane<T>(a, l), b[l], c[l]));
  });
  return Flow::Next;
}
// 9.7.8.6: any function of three bits by its table.
Flow lop3(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]), *b = w.words(inst.ops[2]);
  const u32 *c = w.words(inst.ops[3]);
  forLanes(mask, [&](unsigned l) {
    u32 r = 0;
    for (unsigned k = 0; k < 8; ++k)
      if (inst.a >> k & 1)
        r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) &
             (k & 1 ? c[l] : ~c[l]);
    d[l] = r;
  });
  return Flow::Next;
}
template <class T> Flow shift(Warp &w, const Inst &i, u32 mask) {
  if (i.a == 0)
    return binary<T, T, u32, Shl<T>>(w, i, mask);
  return binary<T, T, u32, Shr<T>>(w, i, mask);
}
// Logic on predicates: whole masks (9.7.8.1 to 9.7.8.4).
Flow logicPred(Warp &w, const Inst &inst, u32 mask) {
  u32 a = w.predicate(inst.ops[1]);
  u32 b = inst.numOps > 2 ? w.predicate(inst.ops[2]) : 0;
  u32 r = inst.a == 0 ? a & b : inst.a == 1 ? a | b : inst.a == 2 ? a ^ b : ~a;
  u32 &d = w.predicates[inst.ops[0].slot];
  d = (d & ~mask) | (r & mask);
  return Flow::Next;
}

/// Picks F<T> for the statement's type.
template <template <class> class F> struct Pick {
  template <class... Ts> static Handler two(Type t) {
    Handler h = nullptr;
    ((t == typeOf<Ts>() ? void(h = binary<Ts, Ts, Ts, F<Ts>>) : void()), ...);
    return h;
  }
  template <class... Ts> static Handler one(Type t) {
    Handler h = nullptr;
    ((t == typeOf<Ts>() ? void(h = unary<Ts, Ts, F<Ts>>) : void()), ...);
    return h;
  }
  template <class... Ts> static Handler three(Type t) {
    Handler h = nullptr;
    ((t == typeOf<Ts>() ? void(h = ternary<Ts, Ts, Ts, F<Ts>>) : void()), ...);
    return h;
  }
  template <class T> static constexpr Type typeOf() {
    if constexpr (std::is_same_v<T, u16>)
      return Type::U16;
    else if constexpr (std::is_same_v<T, u32>)
      return Type::U32;
    else if constexpr (std::is_same_v<T, u64>)
      return Type::U64;
    else if constexpr (std::is_same_v<T, s16>)
      return Type::S16;
    else if constexpr (std::is_same_v<T, s32>)
      return Type::S32;
    else
      return Type::S64;
  }
};
template <template <class> class F> Handler arithmetic2(Type t) {
  return Pick<F>::template two<u16, u32, u64, s16, s32, s64>(t);
}
template <template <class> class F> Handler arithmetic3(Type t) {
  return Pick<F>::template three<u16, u32, u64, s16, s32, s64>(t);
}
template <template <class> class F> Handler signed1(Type t) {
  return Pick<F>::template one<s16, s32, s64>(t);
}
/// .b16 and the like act on the unsigned type.
Type untyped(Type t) {
  return t == Type::B16 || t == Type::S16 || t == Type::U16   ? Type::U16
         : t == Type::B32 || t == Type::S32 || t == Type::U32 ? Type::U32
         : t == Type::B64 || t == Type::S64 || t == Type::U64 ? Type::U64
                                                              : Type::None;
}
Type doubled(Type t) {
  switch (t) {
  case Type::U16:
    return Type::U32;
  case Type::S16:
    return Type::S32;
  case Type::U32:
    return Type::U64;
  default:
    return Type::S64;
  }
}

bool finish(Decoder &d, Handler fn, std::initializer_list<Type> types) {
  if (!fn)
    return false;
  d.operands(types.size());
  size_t k = 0;
  for (Type t : types) {
    k == 0 ? d.dst(k, t) : d.src(k, t);
    ++k;
  }
  d.emit(fn, Category::Integer);
  return true;
}

bool decodeMultiply(Decoder &d, Type t) {
  bool mad = d.root == "mad";
  int form = d.eatAny({"lo", "hi", "wide"});
  if (form < 0)
    return false;
  if (form == 2) {
    Type w = doubled(t);
    Handler fn = nullptr;
    if (t == Type::U16)
      fn = mad ? ternary<u32, u16, u32, MadWide<u16>>
               : binary<u32, u16, u16, MulWide<u16>>;
    if (t == Type::S16)
      fn = mad ? ternary<s32, s16, s32, MadWide<s16>>
               : binary<s32, s16, s16, MulWide<s16>>;
    if (t == Type::U32)
      fn = mad ? ternary<u64, u32, u64, MadWide<u32>>
               : binary<u64, u32, u32, MulWide<u32>>;
    if (t == Type::S32)
      fn = mad ? ternary<s64, s32, s64, MadWide<s32>>
               : binary<s64, s32, s32, MulWide<s32>>;
    return mad ? finish(d, fn, {w, t, t, w}) : finish(d, fn, {w, t, t});
  }
  if (mad)
    return finish(d, form == 0 ? arithmetic3<MadLo>(t) : arithmetic3<MadHi>(t),
                  {t, t, t, t});
  return finish(d, form == 0 ? arithmetic2<MulLo>(t) : arithmetic2<MulHi>(t),
                {t, t, t});
}

bool decodeLogic(Decoder &d, Type t) {
  int which = d.root == "and"   ? 0
              : d.root == "or"  ? 1
              : d.root == "xor" ? 2
                                : 3;
  if (t == Type::Pred) {
    d.inst.a = which;
    d.operands(which == 3 ? 2 : 3);
    d.dst(0, t);
    d.src(1, t);
    if (which != 3)
      d.src(2, t);
    d.emit(logicPred, Category::Predicate);
    return true;
  }
  if (t != Type::B16 && t != Type::B32 && t != Type::B64)
    return false;
  Type u = untyped(t);
  if (which == 3)
    return finish(d, Pick<Not>::one<u16, u32, u64>(u), {t, t});
  Handler fn = which == 0   ? arithmetic2<And>(u)
               : which == 1 ? arithmetic2<Or>(u)
                            : arithmetic2<Xor>(u);
  return finish(d, fn, {t, t, t});
}

bool decodeBits(Decoder &d, Type t) {
  bool wide = bytesOf(t) == 8;
  Type u32t = Type::U32;
  if (d.root == "shl" || d.root == "shr") {
    d.inst.a = d.root == "shr";
    Handler fn = nullptr;
    switch (t) {
    case Type::B16:
    case Type::U16:
      fn = shift<u16>;
      break;
    case Type::B32:
    case Type::U32:
      fn = shift<u32>;
      break;
    case Type::B64:
    case Type::U64:
      fn = shift<u64>;
      break;
    case Type::S16:
      fn = shift<s16>;
      break;
    case Type::S32:
      fn = shift<s32>;
      break;
    case Type::S64:
      fn = shift<s64>;
      break;
    default:
      return false;
    }
    return finish(d, fn, {t, t, u32t});
  }
  if (d.root == "bfe") {
    Handler fn = t == Type::U32   ? bfe<u32>
                 : t == Type::S32 ? bfe<s32>
                 : t == Type::U64 ? bfe<u64>
                 : t == Type::S64 ? bfe<s64>
                                  : nullptr;
    return finish(d, fn, {t, t, u32t, u32t});
  }
  if (d.root == "bfi")
    return finish(d,
                  t == Type::B32   ? bfi<u32>
                  : t == Type::B64 ? bfi<u64>
                                   : nullptr,
                  {t, t, t, u32t, u32t});
  if (d.root == "bfind") {
    bool amount = d.eat("shiftamt");
    Handler fn = nullptr;
    if (t == Type::U32)
      fn = amount ? unary<u32, u32, Bfind<u32, true>>
                  : unary<u32, u32, Bfind<u32, false>>;
    if (t == Type::S32)
      fn = amount ? unary<u32, s32, Bfind<s32, true>>
                  : unary<u32, s32, Bfind<s32, false>>;
    if (t == Type::U64)
      fn = amount ? unary<u32, u64, Bfind<u64, true>>
                  : unary<u32, u64, Bfind<u64, false>>;
    if (t == Type::S64)
      fn = amount ? unary<u32, s64, Bfind<s64, true>>
                  : unary<u32, s64, Bfind<s64, false>>;
    return finish(d, fn, {u32t, t});
  }
  if (t != Type::B32 && t != Type::B64)
    return false;
  if (d.root == "brev")
    return finish(d, Pick<Brev>::one<u32, u64>(untyped(t)), {t, t});
  if (d.root == "clz")
    return finish(d,
                  wide ? Handler(unary<u32, u64, Clz<u64>>)
                       : unary<u32, u32, Clz<u32>>,
                  {u32t, t});
  if (d.root == "popc")
    return finish(d,
                  wide ? Handler(unary<u32, u64, Popc<u64>>)
                       : unary<u32, u32, Popc<u32>>,
                  {u32t, t});
  return false;
}

} // namespace

bool decodeInteger(Decoder &d) {
  if (d.root == "shf") {
    bool left = d.eat("l");
    if (!left)
      d.need("r");
    bool wrap = d.eat("wrap");
    if (!wrap)
      d.need("clamp");
    d.need("b32");
    using H = Handler;
    H fn = left ? (wrap ? H(ternary<u32, u32, u32, Shf<true, true>>)
                        : H(ternary<u32, u32, u32, Shf<true, false>>))
                : (wrap ? H(ternary<u32, u32, u32, Shf<false, true>>)
                        : H(ternary<u32, u32, u32, Shf<false, false>>));
    return finish(d, fn, {Type::B32, Type::B32, Type::B32, Type::U32});
  }
  if (d.root == "lop3") {
    d.need("b32");
    d.operands(5);
    s64 table = d.literal(4);
    if (table < 0 || table > 255)
      d.fail("the table must be 0 to 255");
    d.inst.a = s32(table);
    d.dst(0, Type::B32);
    for (unsigned k = 1; k < 4; ++k)
      d.src(k, Type::B32);
    d.emit(lop3, Category::Integer);
    return true;
  }
  if (d.root == "prmt") {
    d.need("b32");
    return finish(d, ternary<u32, u32, u32, Prmt>,
                  {Type::B32, Type::B32, Type::B32, Type::U32});
  }
  if (d.has("cc"))
    d.fail("carries (.cc) are not supported");
  // Floats share add, sub, mul, mad, div, abs, neg, min and max.
  for (Type t :
       {Type::F16, Type::F16x2, Type::BF16, Type::BF16x2, Type::F32, Type::F64})
    if (d.has(nameOf(t)))
      return decodeFloat(d);
  Type t = d.type();
  if (d.root == "and" || d.root == "or" || d.root == "xor" || d.root == "not")
    return decodeLogic(d, t);
  if (d.root == "mul" || d.root == "mad")
    return decodeMultiply(d, t);
  if (d.root == "add" || d.root == "sub") {
    bool add = d.root == "add";
    if (d.eat("sat")) {
      if (t != Type::S32)
        return false;
      return finish(d,
                    add ? Handler(binary<s32, s32, s32, AddSat<s32>>)
                        : binary<s32, s32, s32, SubSat<s32>>,
                    {t, t, t});
    }
    return finish(d, add ? arithmetic2<Add>(t) : arithmetic2<Sub>(t),
                  {t, t, t});
  }
  if (d.root == "div")
    return finish(d, arithmetic2<Div>(t), {t, t, t});
  if (d.root == "rem")
    return finish(d, arithmetic2<Rem>(t), {t, t, t});
  if ((d.root == "min" || d.root == "max") && d.eat("relu")) {
    if (t != Type::S32)
      return false;
    return finish(d,
                  d.root == "min" ? Handler(binary<s32, s32, s32, MinRelu<s32>>)
                                  : binary<s32, s32, s32, MaxRelu<s32>>,
                  {t, t, t});
  }
  if (d.root == "min")
    return finish(d, arithmetic2<Min>(t), {t, t, t});
  if (d.root == "max")
    return finish(d, arithmetic2<Max>(t), {t, t, t});
  if (d.root == "sad")
    return finish(d, arithmetic3<Sad>(t), {t, t, t, t});
  if (d.root == "abs")
    return finish(d, signed1<Abs>(t), {t, t});
  if (d.root == "neg")
    return finish(d, signed1<Neg>(t), {t, t});
  if (d.root == "cnot")
    return finish(d, Pick<Cnot>::one<u16, u32, u64>(untyped(t)), {t, t});
  return decodeBits(d, t);
}

} // namespace fa2::sim
