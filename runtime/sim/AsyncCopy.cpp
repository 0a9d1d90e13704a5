//===- AsyncCopy.cpp - cp.async (PTX ISA 9.7.9.25.3) ----------------------===//
//
// Rule 4: checked when issued, stamped with the group being filled; the bytes
// move now or as late as the wait that covers them.
//
//===----------------------------------------------------------------------===//

#include "Access.h"
#include "Lanes.h"

namespace fa2::sim {

static void move(Warp &w, const PendingCopy &copy) {
  u8 *to = w.block->shared.data() + copy.shared;
  if (copy.sourceBytes)
    std::memcpy(to, reinterpret_cast<const void *>(copy.global),
                copy.sourceBytes);
  std::memset(to + copy.sourceBytes, 0, copy.bytes - copy.sourceBytes);
}

void executeCopies(Warp &w, u32 upToGroup) {
  while (!w.copies.empty() && w.copies.front().group <= upToGroup) {
    move(w, w.copies.front());
    w.copies.pop_front();
  }
}

namespace {

// Checks what is read of a chunk. It may begin or end beside the elements that
// are wanted, between a tensor's rows: those halves of its words are in the
// same allocation, since allocations are whole chunks, and nothing is said of
// them.
void checkSource(Warp &w, const Inst &inst, int lane, u32 agent, u64 from,
                 u32 bytes) {
  constexpr u32 half = 2;
  GlobalMemory &global = w.machine->global;
  u64 index;
  u32 found = 0;
  if (bytes > half && !global.find(from, bytes, false, index))
    for (u32 at = 0; at + half <= bytes; at += half)
      if (global.find(from + at, half, false, index)) {
        checkGlobalAs(w, inst, lane, agent, w.copyGroup, from + at, half, {});
        ++found;
      }
  if (!found)
    checkGlobalAs(w, inst, lane, agent, w.copyGroup, from, bytes, {});
}

// Operands: destination, source, [source size or ignore predicate].
// Inst: a = bytes, b = 1 source size, 2 ignore-src; offset, and c for the
// source's offset.
Flow copy(Warp &w, const Inst &inst, u32 mask) {
  Machine &m = *w.machine;
  Block &block = *w.block;
  u32 bytes = u32(inst.a);
  u32 agent = block.agents.copies(w.id);
  bool now = m.completesNow();
  u64 sources[kWarpSize];
  u32 targets[kWarpSize], reading = 0;
  u32 ignored = inst.b == 2 ? w.predicate(inst.ops[2]) : 0;
  for (u32 rest = mask; rest; rest &= rest - 1) {
    unsigned l = unsigned(std::countr_zero(rest));
    u64 to = w.laneValue(inst.ops[0], l) + u64(s64(inst.d));
    u64 from = w.laneValue(inst.ops[1], l) + u64(inst.offset);
    to = ownOffset(w, inst, int(l), withoutWindow(to));
    boundShared(w, inst, int(l), to, bytes);
    if (to % bytes)
      m.fatal(11, w, inst, int(l), "shared", to,
              "destination of cp.async is not a multiple of " +
                  std::to_string(bytes) + " bytes");
    u32 size = bytes;
    if (inst.b == 1)
      size = u32(w.laneValue(inst.ops[2], l));
    if (ignored >> l & 1)
      size = 0;
    if (size > bytes)
      m.fatal(11, w, inst, int(l), "global", from,
              "source size " + std::to_string(size) + " is larger than " +
                  std::to_string(bytes));
    targets[l] = u32(to);
    sources[l] = from;
    if (size) {
      if (from % bytes)
        m.fatal(11, w, inst, int(l), "global", from,
                "source of cp.async is not a multiple of " +
                    std::to_string(bytes) + " bytes");
      checkSource(w, inst, int(l), agent, from, size);
      reading |= 1u << l;
    }
    checkSharedAs(w, inst, agent, w.copyGroup, u32(to), bytes, true, int(l));
    PendingCopy pending{u32(to), bytes, size, from, w.copyGroup};
    if (now)
      move(w, pending);
    else
      w.copies.push_back(pending);
  }
  if (m.options.profile) {
    profileGlobal(w, inst, reading, sources, bytes, false);
    profileShared(w, inst, mask, targets, bytes, true);
  }
  if (m.options.traceWaits)
    w.copyCounts.emplace_back(w.copyGroup, u32(std::popcount(mask)));
  w.copyOpen += u32(std::popcount(mask));
  w.copyLanes |= mask;
  w.copyLast = w.copyGroup;
  return Flow::Next;
}

void commitGroup(Warp &w) {
  ++w.copyGroup;
  w.copyOpen = 0;
}

Flow commit(Warp &w, const Inst &, u32) {
  commitGroup(w);
  return Flow::Next;
}

void traceWait(Warp &w, const Inst &inst, u32 upToGroup) {
  WaitTrace &trace = w.machine->result.waits[inst.line];
  u64 before = w.copiesComplete;
  while (!w.copyCounts.empty() && w.copyCounts.front().first <= upToGroup) {
    w.copiesComplete += w.copyCounts.front().second;
    w.copyCounts.pop_front();
  }
  ++trace.executions;
  trace.completed += w.copiesComplete - before;
  Random hash{w.block->id[0]};
  for (u64 value : {u64(w.block->id[1]), u64(w.block->id[2]), u64(w.id),
                    w.waitsSoFar, w.copiesComplete})
    hash.state = hash.next() ^ value;
  ++w.waitsSoFar;
  trace.digest += hash.next();
}

// Groups up to committed - N are complete, for this warp's lanes.
Flow waitGroup(Warp &w, const Inst &inst, u32 mask) {
  if (inst.a < 0 && w.copyOpen)
    commitGroup(w);
  u32 pending = u32(std::max(inst.a, 0)), committed = w.copyGroup - 1;
  u32 done = committed > pending ? committed - pending : 0;
  executeCopies(w, done);
  if (w.machine->options.traceWaits)
    traceWait(w, inst, done);
  if (w.machine->checks()) {
    // Each lane waits for its own copies only (9.7.9.25.3.3).
    if (u32 others = w.copyLanes & ~mask)
      w.machine->error(4, w, inst, std::countr_zero(others), "shared", 0,
                       "cp.async wait leaves out lanes that have copies");
    w.copyWaited = std::max(w.copyWaited, done);
    u32 &seen = w.clocks.g.own[w.block->agents.copies(w.id)];
    seen = std::max(seen, done);
    w.unsyncedWrites |= w.copyLanes;
    if (pending == 0)
      w.copyLanes = 0;
  }
  return Flow::Next;
}

} // namespace

bool decodeCopy(Decoder &d) {
  Inst &inst = d.inst;
  if (d.eat("reduce"))
    return false;
  d.need("async");
  if (d.has("bulk"))
    return decodeBulk(d);
  if (d.eat("commit_group")) {
    d.operands(0);
    d.emit(commit, Category::Synchronize);
    return true;
  }
  if (d.eat("wait_group")) {
    d.operands(1);
    s64 n = d.literal(0);
    if (n < 0 || n > 1 << 20)
      d.fail("the number of groups must be 0 to 2^20");
    inst.a = s32(n);
    inst.sync = true;
    d.emit(waitGroup, Category::Synchronize);
    return true;
  }
  if (d.eat("wait_all")) {
    d.operands(0);
    inst.a = -1;
    inst.sync = true;
    d.emit(waitGroup, Category::Synchronize);
    return true;
  }
  int cache = d.eatAny({"ca", "cg"});
  if (cache < 0 || !(d.eat("shared") || d.eat("shared::cta")))
    return false;
  d.need("global");
  bool hint = d.eat("L2::cache_hint");
  d.eatAny({"L2::64B", "L2::128B", "L2::256B"});
  d.operands(hint ? 4 : 3, hint ? 5 : 4);
  s64 bytes = d.literal(2);
  if (bytes != 16 && !(cache == 0 && (bytes == 4 || bytes == 8)))
    d.fail("the size must be 16, or with .ca 4, 8 or 16");
  inst.a = s32(bytes);
  d.address(0);
  if (inst.offset != s32(inst.offset))
    d.fail("offset is too large");
  inst.d = s32(inst.offset);
  d.address(1);
  if (d.raw.operands.size() == (hint ? 5u : 4u)) {
    const RawOperand &extra = d.at(3);
    bool predicate =
        extra.kind == RawOperand::Symbol &&
        d.builder.registerNamed(d.raw.line, extra.name).type == Type::Pred;
    inst.b = predicate ? 2 : 1;
    d.src(3, predicate ? Type::Pred : Type::U32);
  }
  if (hint)
    d.src(d.raw.operands.size() - 1, Type::U64);
  d.emit(copy, Category::AsyncCopy);
  return true;
}

} // namespace fa2::sim
