//===- Shuffle.cpp - shfl, vote, elect, redux, match ----------------------===//
//
// PTX ISA 9.7.9.6 (shfl.sync), 9.7.13.8 to 9.7.13.12.
//
//===----------------------------------------------------------------------===//

#include "Lanes.h"

namespace fa2::sim {
namespace {

/// The member mask; lanes of it that exist must be here.
u32 members(Warp &w, const Inst &inst, const Operand &op, u32 mask) {
  u32 m = u32(w.laneValue(op, u32(std::countr_zero(mask))));
  if (u32 away = m & w.lanes & ~mask)
    w.machine->fatal(7, w, inst, std::countr_zero(away), "warp", 0,
                     "a lane of the member mask is elsewhere in a divergent "
                     "branch; this is not simulated");
  if (u32 extra = mask & ~m; extra && w.machine->checks())
    w.machine->error(7, w, inst, std::countr_zero(extra), "warp", 0,
                     "a lane executes the instruction but is not in its "
                     "member mask");
  return m & mask;
}

enum Mode : s32 { Up, Down, Bfly, Idx };

// Operands: d, [p], a, b, c, membermask. Inst: a = mode, b = has p.
Flow shfl(Warp &w, const Inst &inst, u32 mask) {
  unsigned k = inst.b ? 2 : 1;
  u32 present = members(w, inst, inst.ops[k + 3], mask);
  u32 in[kWarpSize], out[kWarpSize];
  const u32 *a = w.words(inst.ops[k]), *b = w.words(inst.ops[k + 1]);
  const u32 *c = w.words(inst.ops[k + 2]);
  std::memcpy(in, a, sizeof in);
  u32 inRange = 0;
  for (u32 rest = mask; rest; rest &= rest - 1) {
    u32 lane = u32(std::countr_zero(rest));
    u32 bval = b[lane] & 31, cval = c[lane] & 31, segment = c[lane] >> 8 & 31;
    u32 maxLane = (lane & segment) | (cval & ~segment);
    u32 minLane = lane & segment;
    s32 j = 0;
    bool p = false;
    switch (inst.a) {
    case Up:
      j = s32(lane) - s32(bval);
      p = j >= s32(maxLane);
      break;
    case Down:
      j = s32(lane + bval);
      p = j <= s32(maxLane);
      break;
    case Bfly:
      j = s32(lane ^ bval);
      p = j <= s32(maxLane);
      break;
    default:
      j = s32(minLane | (bval & ~segment));
      p = j <= s32(maxLane);
    }
    if (!p)
      j = s32(lane);
    if (p && !(present >> j & 1) && w.machine->checks())
      w.machine->error(7, w, inst, s32(lane), "warp", u32(j),
                       "shfl reads a lane that is not active");
    out[lane] = in[j];
    inRange |= u32(p) << lane;
  }
  u32 *d = w.words(inst.ops[0]);
  if (!inst.ops[0].sink)
    forLanes(mask, [&](unsigned l) { d[l] = out[l]; });
  if (inst.b && !inst.ops[1].sink) {
    u32 &p = w.predicates[inst.ops[1].slot];
    p = (p & ~mask) | (inRange & mask);
  }
  return Flow::Next;
}

enum Vote : s32 { All, Any, Uni, Ballot };
Flow vote(Warp &w, const Inst &inst, u32 mask) {
  u32 present = members(w, inst, inst.ops[2], mask);
  u32 p = w.predicate(inst.ops[1]) & present;
  if (inst.a == Ballot) {
    u32 *d = w.words(inst.ops[0]);
    forLanes(mask, [&](unsigned l) { d[l] = p; });
    return Flow::Next;
  }
  bool r = inst.a == All   ? p == present
           : inst.a == Any ? p != 0
                           : p == 0 || p == present;
  u32 &d = w.predicates[inst.ops[0].slot];
  d = r ? d | mask : d & ~mask;
  return Flow::Next;
}

// elect.sync d|p, membermask: the lowest lane is elected.
Flow elect(Warp &w, const Inst &inst, u32 mask) {
  u32 present = members(w, inst, inst.ops[2], mask);
  u32 leader = u32(std::countr_zero(present));
  if (!inst.ops[0].sink) {
    u32 *d = w.words(inst.ops[0]);
    forLanes(mask, [&](unsigned l) { d[l] = leader; });
  }
  u32 &p = w.predicates[inst.ops[1].slot];
  p = (p & ~mask) | (1u << leader & mask);
  return Flow::Next;
}

Flow redux(Warp &w, const Inst &inst, u32 mask) {
  u32 present = members(w, inst, inst.ops[2], mask);
  const u32 *a = w.words(inst.ops[1]);
  bool isS = inst.type == Type::S32;
  u32 r = a[std::countr_zero(present)];
  for (u32 rest = present & (present - 1); rest; rest &= rest - 1) {
    u32 x = a[std::countr_zero(rest)];
    switch (inst.a) {
    case 0:
      r += x;
      break;
    case 1:
      r = isS ? u32(std::min(s32(r), s32(x))) : std::min(r, x);
      break;
    case 2:
      r = isS ? u32(std::max(s32(r), s32(x))) : std::max(r, x);
      break;
    case 3:
      r &= x;
      break;
    case 4:
      r |= x;
      break;
    default:
      r ^= x;
    }
  }
  u32 *d = w.words(inst.ops[0]);
  forLanes(mask, [&](unsigned l) { d[l] = r; });
  return Flow::Next;
}

Flow activemask(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  forLanes(mask, [&](unsigned l) { d[l] = mask; });
  return Flow::Next;
}

} // namespace

bool decodeShuffle(Decoder &d) {
  Inst &inst = d.inst;
  Category c = Category::Shuffle;
  if (d.root == "activemask") {
    d.need("b32");
    d.operands(1);
    d.dst(0, Type::B32);
    d.emit(activemask, c);
    return true;
  }
  d.need("sync");
  if (d.root == "shfl") {
    inst.a = d.eatAny({"up", "down", "bfly", "idx"});
    if (inst.a < 0)
      return false;
    d.need("b32");
    d.operands(5, 6);
    inst.b = d.at(1).piped;
    if (d.raw.operands.size() != (inst.b ? 6u : 5u))
      return false;
    size_t k = inst.b ? 2 : 1;
    d.dst(0, Type::B32);
    if (inst.b)
      d.dst(1, Type::Pred);
    for (size_t i = k; i < k + 4; ++i)
      d.src(i, Type::B32);
    d.emit(shfl, c);
    return true;
  }
  if (d.root == "vote") {
    inst.a = d.eatAny({"all", "any", "uni", "ballot"});
    if (inst.a < 0)
      return false;
    d.need(inst.a == Ballot ? "b32" : "pred");
    d.operands(3);
    d.dst(0, inst.a == Ballot ? Type::B32 : Type::Pred);
    d.src(1, Type::Pred);
    d.src(2, Type::B32);
    d.emit(vote, c);
    return true;
  }
  if (d.root == "elect") {
    d.operands(3);
    if (!d.at(1).piped)
      return false;
    d.dst(0, Type::B32);
    d.dst(1, Type::Pred);
    d.src(2, Type::B32);
    d.emit(elect, c);
    return true;
  }
  if (d.root == "redux") {
    inst.a = d.eatAny({"add", "min", "max", "and", "or", "xor"});
    inst.type = d.type();
    if (inst.a < 0 || bytesOf(inst.type) != 4 || isFloat(inst.type))
      return false;
    d.operands(3);
    d.dst(0, inst.type);
    d.src(1, inst.type);
    d.src(2, Type::B32);
    d.emit(redux, c);
    return true;
  }
  return false;
}

} // namespace fa2::sim
