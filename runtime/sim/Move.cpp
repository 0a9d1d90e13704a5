//===- Move.cpp - mov, selp, setp, set ------------------------------------===//
//
// PTX ISA 9.7.9.3 (mov), 9.7.5 and 9.7.6 (comparison and selection), 10
// (special registers).
//
//===----------------------------------------------------------------------===//

#include "Lanes.h"

namespace fa2::sim {
namespace {

template <class T> struct Copy {
  static T apply(T a) { return a; }
};
Flow movPred(Warp &w, const Inst &inst, u32 mask) {
  u32 &d = w.predicates[inst.ops[0].slot];
  d = (d & ~mask) | (w.predicate(inst.ops[1]) & mask);
  return Flow::Next;
}
// mov.b64 %rd, {%r1, %r2} and back: element k at bits k * width.
Flow movPack(Warp &w, const Inst &inst, u32 mask) {
  const Operand &d = inst.ops[0];
  u32 *out = w.words(d);
  unsigned bits = unsigned(inst.a);
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    u64 value = 0;
    for (unsigned k = 1; k < inst.numOps; ++k)
      value |= (w.laneValue(inst.ops[k], l) & (~u64(0) >> (64 - bits)))
               << bits * (k - 1);
    if (d.bytes == 8)
      putLane<u64>(out, l, value);
    else
      out[l] = u32(value);
  }
  return Flow::Next;
}
Flow movUnpack(Warp &w, const Inst &inst, u32 mask) {
  const Operand &s = inst.ops[inst.numOps - 1];
  unsigned bits = unsigned(inst.a);
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    u64 value = w.laneValue(s, l);
    for (unsigned k = 0; k + 1 < inst.numOps; ++k)
      if (!inst.ops[k].sink)
        w.words(inst.ops[k])[l] =
            u32(value >> bits * k & (~u64(0) >> (64 - bits)));
  }
  return Flow::Next;
}

enum Special : s32 {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  LaneEq,
  LaneLe,
  LaneLt,
  LaneGe,
  LaneGt,
  DynamicShared,
  TotalShared,
  ClusterIdX,
  ClusterIdY,
  ClusterIdZ,
  NclusterIdX,
  NclusterIdY,
  NclusterIdZ,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusterRank,
  ClusterSize,
  Clock
};
constexpr std::pair<std::string_view, s32> kSpecials[] = {
    {"%tid.x", TidX},
    {"%tid.y", TidY},
    {"%tid.z", TidZ},
    {"%ntid.x", NtidX},
    {"%ntid.y", NtidY},
    {"%ntid.z", NtidZ},
    {"%ctaid.x", CtaidX},
    {"%ctaid.y", CtaidY},
    {"%ctaid.z", CtaidZ},
    {"%nctaid.x", NctaidX},
    {"%nctaid.y", NctaidY},
    {"%nctaid.z", NctaidZ},
    {"%laneid", LaneId},
    {"%warpid", WarpId},
    {"%nwarpid", NwarpId},
    {"%smid", SmId},
    {"%nsmid", NsmId},
    {"%gridid", GridId},
    {"%lanemask_eq", LaneEq},
    {"%lanemask_le", LaneLe},
    {"%lanemask_lt", LaneLt},
    {"%lanemask_ge", LaneGe},
    {"%lanemask_gt", LaneGt},
    {"%dynamic_smem_size", DynamicShared},
    {"%total_smem_size", TotalShared},
    {"%clusterid.x", ClusterIdX},
    {"%clusterid.y", ClusterIdY},
    {"%clusterid.z", ClusterIdZ},
    {"%nclusterid.x", NclusterIdX},
    {"%nclusterid.y", NclusterIdY},
    {"%nclusterid.z", NclusterIdZ},
    {"%cluster_ctaid.x", ClusterCtaidX},
    {"%cluster_ctaid.y", ClusterCtaidY},
    {"%cluster_ctaid.z", ClusterCtaidZ},
    {"%cluster_nctaid.x", ClusterNctaidX},
    {"%cluster_nctaid.y", ClusterNctaidY},
    {"%cluster_nctaid.z", ClusterNctaidZ},
    {"%cluster_ctarank", ClusterRank},
    {"%cluster_nctarank", ClusterSize},
    {"%clock", Clock},
    {"%clock64", Clock},
    {"%globaltimer", Clock},
    {"%globaltimer_lo", Clock},
    {"WARP_SZ", 1000},
};

Flow movSpecial(Warp &w, const Inst &inst, u32 mask) {
  const Operand &d = inst.ops[0];
  u32 *out = w.words(d);
  const Block &block = *w.block;
  const Launch &launch = *block.grid->launch;
  const auto &n = launch.block, &c = launch.cluster;
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    u32 thread = w.id * kWarpSize + l;
    u64 v = 0;
    switch (inst.a) {
    case TidX:
      v = thread % n[0];
      break;
    case TidY:
      v = thread / n[0] % n[1];
      break;
    case TidZ:
      v = thread / n[0] / n[1];
      break;
    case NtidX:
    case NtidY:
    case NtidZ:
      v = n[size_t(inst.a - NtidX)];
      break;
    case CtaidX:
    case CtaidY:
    case CtaidZ:
      v = block.id[size_t(inst.a - CtaidX)];
      break;
    case NctaidX:
    case NctaidY:
    case NctaidZ:
      v = launch.grid[size_t(inst.a - NctaidX)];
      break;
    case LaneId:
      v = l;
      break;
    case WarpId:
      v = w.id;
      break;
    case NwarpId:
      v = block.warps.size();
      break;
    case SmId:
      v = block.sequence % block.grid->resident;
      break;
    case NsmId:
      v = block.grid->resident;
      break;
    case GridId:
      v = block.grid->firstSequence;
      break;
    case LaneEq:
      v = 1u << l;
      break;
    case LaneLe:
      v = u32((u64(2) << l) - 1);
      break;
    case LaneLt:
      v = (1u << l) - 1;
      break;
    case LaneGe:
      v = ~((1u << l) - 1);
      break;
    case LaneGt:
      v = ~u32((u64(2) << l) - 1);
      break;
    case DynamicShared:
      v = launch.dynamicSharedBytes;
      break;
    case TotalShared:
      v = launch.dynamicSharedBytes + block.kernel->staticShared;
      break;
    case ClusterIdX:
    case ClusterIdY:
    case ClusterIdZ:
      v = block.id[size_t(inst.a - ClusterIdX)] /
          c[size_t(inst.a - ClusterIdX)];
      break;
    case NclusterIdX:
    case NclusterIdY:
    case NclusterIdZ:
      v = launch.grid[size_t(inst.a - NclusterIdX)] /
          c[size_t(inst.a - NclusterIdX)];
      break;
    case ClusterCtaidX:
    case ClusterCtaidY:
    case ClusterCtaidZ:
      v = block.id[size_t(inst.a - ClusterCtaidX)] %
          c[size_t(inst.a - ClusterCtaidX)];
      break;
    case ClusterNctaidX:
    case ClusterNctaidY:
    case ClusterNctaidZ:
      v = c[size_t(inst.a - ClusterNctaidX)];
      break;
    case ClusterRank:
      v = block.rank;
      break;
    case ClusterSize:
      v = block.grid->clusterBlocks;
      break;
    case Clock:
      v = w.machine->result.warpInstructions * 4;
      break;
    default:
      v = kWarpSize;
    }
    if (d.bytes == 8)
      putLane<u64>(out, l, v);
    else
      out[l] = u32(v);
  }
  return Flow::Next;
}

// selp: the unselected arm may be unwritten (rule 11), so both are Quiet.
template <class T> Flow selp(Warp &w, const Inst &inst, u32 mask) {
  u32 p = w.predicate(inst.ops[3]);
  if (w.machine->checks())
    for (unsigned k = 1; k < 3; ++k) {
      u32 used = mask & (k == 1 ? p : ~p);
      const Operand &op = inst.ops[k];
      if (op.reg != kNone && used & ~w.written[op.reg])
        w.machine->error(11, w, inst,
                         std::countr_zero(used & ~w.written[op.reg]),
                         "register", op.reg,
                         "register '" + w.block->kernel->registerNames[op.reg] +
                             "' was never written");
    }
  u32 *d = w.words(inst.ops[0]);
  const u32 *a = w.words(inst.ops[1]), *b = w.words(inst.ops[2]);
  forLanes(mask, [&](unsigned l) {
    putLane<T>(d, l, p >> l & 1 ? getLane<T>(a, l) : getLane<T>(b, l));
  });
  return Flow::Next;
}

enum Compare : s32 {
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  Lo,
  Ls,
  Hi,
  Hs, // integers
  Equ,
  Neu,
  Ltu,
  Leu,
  Gtu,
  Geu,
  Num,
  Nan
};
template <int C, class T> bool compare(T a, T b) {
  bool unordered = false;
  if constexpr (std::is_floating_point_v<T>)
    unordered = std::isnan(a) || std::isnan(b);
  switch (C) {
  case Eq:
    return a == b;
  case Ne:
    return a != b && !unordered;
  case Lt:
  case Lo:
    return a < b;
  case Le:
  case Ls:
    return a <= b;
  case Gt:
  case Hi:
    return a > b;
  case Ge:
  case Hs:
    return a >= b;
  case Equ:
    return unordered || a == b;
  case Neu:
    return unordered || a != b;
  case Ltu:
    return unordered || a < b;
  case Leu:
    return unordered || a <= b;
  case Gtu:
    return unordered || a > b;
  case Geu:
    return unordered || a >= b;
  case Num:
    return !unordered;
  default:
    return unordered;
  }
}
template <class T, int C>
u32 compareMask(const u32 *a, const u32 *b, bool ftz) {
  u32 r = 0;
  for (unsigned l = 0; l < kWarpSize; ++l) {
    bool hit;
    if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
      hit = compare<C>(getLane<T>(a, l).value(), getLane<T>(b, l).value());
    } else if constexpr (std::is_same_v<T, float>) {
      float x = getLane<T>(a, l), y = getLane<T>(b, l);
      hit = ftz ? compare<C>(flush(x), flush(y)) : compare<C>(x, y);
    } else {
      hit = compare<C>(getLane<T>(a, l), getLane<T>(b, l));
    }
    r |= u32(hit) << l;
  }
  return r;
}
// Inst: a = comparison, b = boolean operator (0 none, 1 and, 2 or, 3 xor),
// c = ftz. Operands: p, [q], a, b, [c].
template <class T, int C> Flow setp(Warp &w, const Inst &inst, u32 mask) {
  unsigned first = inst.d ? 2 : 1;
  u32 r = compareMask<T, C>(w.words(inst.ops[first]),
                            w.words(inst.ops[first + 1]), inst.c);
  u32 r2 = ~r;
  if (inst.b) {
    u32 c = w.predicate(inst.ops[first + 2]);
    auto join = [&](u32 x) {
      return inst.b == 1 ? x & c : inst.b == 2 ? x | c : x ^ c;
    };
    r = join(r);
    r2 = join(r2);
  }
  auto store = [&](const Operand &op, u32 value) {
    if (op.sink)
      return;
    u32 &d = w.predicates[op.slot];
    d = (d & ~mask) | (value & mask);
  };
  store(inst.ops[0], r);
  if (inst.d)
    store(inst.ops[1], r2);
  return Flow::Next;
}
// set.cmp.{u32,s32,f32}.type: all ones or 1.0.
template <class T, int C> Flow set(Warp &w, const Inst &inst, u32 mask) {
  u32 r = compareMask<T, C>(w.words(inst.ops[1]), w.words(inst.ops[2]), inst.c);
  if (inst.b) {
    u32 c = w.predicate(inst.ops[3]);
    r = inst.b == 1 ? r & c : inst.b == 2 ? r | c : r ^ c;
  }
  u32 *d = w.words(inst.ops[0]);
  u32 yes = inst.type == Type::F32 ? 0x3f800000u : 0xffffffffu;
  forLanes(mask, [&](unsigned l) { d[l] = r >> l & 1 ? yes : 0; });
  return Flow::Next;
}
template <class T, int C = 0> Handler pickCompare(int c, bool isSet) {
  if constexpr (C > Nan) {
    return nullptr;
  } else {
    if (c == C)
      return isSet ? set<T, C> : setp<T, C>;
    return pickCompare<T, C + 1>(c, isSet);
  }
}
// setp on two packed halves writes one predicate each: not emitted, not known.
Handler compareHandler(Type t, int c, bool isSet) {
  switch (t) {
  case Type::B16:
  case Type::U16:
    return pickCompare<u16>(c, isSet);
  case Type::S16:
    return pickCompare<s16>(c, isSet);
  case Type::B32:
  case Type::U32:
    return pickCompare<u32>(c, isSet);
  case Type::S32:
    return pickCompare<s32>(c, isSet);
  case Type::B64:
  case Type::U64:
    return pickCompare<u64>(c, isSet);
  case Type::S64:
    return pickCompare<s64>(c, isSet);
  case Type::F16:
    return pickCompare<F16>(c, isSet);
  case Type::BF16:
    return pickCompare<BF16>(c, isSet);
  case Type::F32:
    return pickCompare<float>(c, isSet);
  case Type::F64:
    return pickCompare<double>(c, isSet);
  default:
    return nullptr;
  }
}

bool isSpecial(std::string_view name, s32 &which) {
  for (const auto &[special, number] : kSpecials)
    if (special == name) {
      which = number;
      return true;
    }
  return false;
}

} // namespace

bool decodeMove(Decoder &d) {
  Type t = d.type();
  unsigned bytes = bytesOf(t);
  if (d.root == "selp") {
    d.operands(4);
    d.dst(0, t);
    d.src(1, t, Role::Quiet);
    d.src(2, t, Role::Quiet);
    d.src(3, Type::Pred);
    Handler fn = bytes == 8   ? selp<u64>
                 : bytes == 4 ? selp<u32>
                 : bytes == 2 ? selp<u16>
                              : nullptr;
    if (!fn)
      return false;
    d.emit(fn, Category::Predicate);
    return true;
  }
  d.operands(2);
  if (t == Type::Pred) {
    d.dst(0, t);
    d.src(1, t);
    d.emit(movPred, Category::Predicate);
    return true;
  }
  if (bytes != 2 && bytes != 4 && bytes != 8)
    return false;
  const RawOperand &to = d.at(0), &from = d.at(1);
  if (to.kind == RawOperand::Vector || from.kind == RawOperand::Vector) {
    const auto &parts = to.kind == RawOperand::Vector ? to : from;
    size_t n = parts.elements.size();
    if ((to.kind == from.kind) || n == 0 || bytes % n || bytes / n < 2 ||
        bytes / n > 4 || n < 2)
      return false;
    Type part = bytes / n == 4 ? Type::B32 : Type::B16;
    d.inst.a = s32(bytes / n * 8);
    if (to.kind == RawOperand::Vector) {
      for (const RawOperand &element : to.elements)
        d.add(element, part, Role::Destination);
      d.src(1, t);
      d.emit(movUnpack, Category::Move);
    } else {
      d.dst(0, t);
      for (const RawOperand &element : from.elements)
        d.add(element, part, Role::Source);
      d.emit(movPack, Category::Move);
    }
    return true;
  }
  s32 which;
  if (from.kind == RawOperand::Symbol && isSpecial(from.name, which)) {
    if (bytes == 2)
      return false;
    d.inst.a = which;
    d.dst(0, t);
    d.emit(movSpecial, Category::Move);
    return true;
  }
  d.dst(0, t);
  d.src(1, t);
  d.emit(bytes == 8   ? unary<u64, u64, Copy<u64>>
         : bytes == 4 ? unary<u32, u32, Copy<u32>>
                      : unary<u16, u16, Copy<u16>>,
         Category::Move);
  return true;
}

bool decodeCompare(Decoder &d) {
  int c = d.eatAny({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
                    "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (c < 0)
    d.fail("expected a comparison");
  d.inst.b = d.eatAny({"and", "or", "xor"}) + 1;
  d.inst.c = d.eat("ftz");
  bool isSet = d.root == "set";
  Type result = isSet ? d.type() : Type::Pred;
  Type t = d.type();
  if (isSet && result != Type::U32 && result != Type::S32 &&
      result != Type::F32)
    return false;
  if (c >= Equ && !isFloat(t))
    return false;
  d.inst.type = result;
  bool second = !isSet && d.raw.operands.size() > 1 && d.at(1).piped;
  d.inst.d = second;
  size_t first = second ? 2 : 1;
  d.operands(first + 2 + (d.inst.b ? 1 : 0));
  d.dst(0, result);
  if (second)
    d.dst(1, Type::Pred);
  d.src(first, t);
  d.src(first + 1, t);
  if (d.inst.b)
    d.src(first + 2, Type::Pred);
  Handler fn = compareHandler(t, c, isSet);
  if (!fn)
    return false;
  d.emit(fn, isSet ? Category::Integer : Category::Predicate);
  return true;
}

} // namespace fa2::sim
