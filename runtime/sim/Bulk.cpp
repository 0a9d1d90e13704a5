//===- Bulk.cpp - cp.async.bulk and TMA (PTX ISA 9.7.9.25.4 to .6) --------===//
//
// Rule 4: a copy may happen any time from issue to completion. It is checked
// when issued against the issuer's clocks; loads are stamped with the
// mbarrier's phase, stores with the warp's bulk group.
//
//===----------------------------------------------------------------------===//

#include "TensorMap.h"

#include "Access.h"
#include "Lanes.h"
#include "Mbarrier.h"

namespace fa2::sim {

void completeBulk(Machine &, const BulkCopy &copy) {
  Block &block = *copy.block;
  u8 *shared = block.shared.data();
  bool load = !copy.stores();
  if (copy.kind == BulkCopy::Exchange)
    std::memmove(shared + copy.shared,
                 copy.warp->block->shared.data() + copy.from, copy.bytes);
  else if (copy.kind == BulkCopy::Load)
    std::memcpy(shared + copy.shared,
                reinterpret_cast<const void *>(copy.global), copy.bytes);
  else if (copy.kind == BulkCopy::Store)
    std::memcpy(reinterpret_cast<void *>(copy.global), shared + copy.shared,
                copy.bytes);
  else
    forEachRow(copy.map, copy.coords, load, [&](const BoxRow &row) {
      for (u32 at = 0; at < row.bytes; at += 16) {
        u8 *chunk =
            shared + swizzled(copy.shared + row.offset + at, copy.map.swizzle);
        u32 size = std::min(16u, row.bytes - at);
        u32 from = std::max(at, row.skip);
        u32 to = std::min(at + size, row.skip + row.inside);
        u8 *global = reinterpret_cast<u8 *>(row.global);
        if (load) {
          std::memset(chunk, 0, size);
          if (from < to)
            std::memcpy(chunk + (from - at), global + (from - row.skip),
                        to - from);
        } else if (from < to) {
          std::memcpy(global + (from - row.skip), chunk + (from - at),
                      to - from);
        }
      }
    });
  if (load)
    completeBytes(block.mbarriers[copy.mbarrier], copy.bytes);
  else
    ++block.machine->globalVersion;
}

void completeBulkOf(Machine &machine, Warp &w, u32 upToGroup) {
  for (size_t k = 0; k < machine.bulk.size();) {
    const BulkCopy &copy = machine.bulk[k];
    if (copy.warp != &w || !copy.stores() || copy.group > upToGroup) {
      ++k;
      continue;
    }
    BulkCopy taken = copy;
    machine.bulk.erase(machine.bulk.begin() + s64(k));
    completeBulk(machine, taken);
  }
}

namespace {

void start(Warp &w, BulkCopy &copy) {
  Machine &m = *w.machine;
  if (m.completesNow())
    completeBulk(m, copy);
  else
    m.bulk.push_back(copy);
}

// The descriptor behind a generic address: a parameter, or global memory. Its
// base is touched even where the whole box is out of range.
TensorMap fetchMap(Warp &w, const Inst &inst, int lane, u64 address,
                   bool load) {
  Machine &m = *w.machine;
  TensorMap map;
  const void *from = nullptr;
  u64 index;
  if ((address & kWindowMask) == kParamWindow) {
    u64 offset = address & ~kWindowMask;
    const auto &parameters = w.block->grid->launch->parameters;
    if (offset + sizeof map <= parameters.size() && offset % 64 == 0)
      from = parameters.data() + offset;
  } else if (m.global.find(address, sizeof map, false, index)) {
    from = reinterpret_cast<const void *>(address);
  }
  if (!from)
    m.fatal(4, w, inst, lane, "tensor map", address,
            "no tensor map of 128 bytes, 64-byte aligned, is at this address");
  std::memcpy(&map, from, sizeof map);
  if (std::string fault = validate(map); !fault.empty())
    m.fatal(4, w, inst, lane, "tensor map", address, fault);
  if (!m.global.find(map.base, map.elementBytes, !load, index))
    m.fatal(
        4, w, inst, lane, "global", map.base,
        "the tensor map's base address is outside every tensor's elements: " +
            m.global.describe(map.base));
  return map;
}

// Inst: offset of the shared address, c of the mbarrier's, d of the global one.
u64 sharedAddress(Warp &w, const Inst &inst, const Operand &op, unsigned lane) {
  return withoutWindow(w.laneValue(op, lane) + u64(inst.offset));
}

/// What a copy writes: `bytes` at an address of shared::cluster, and the
/// mbarrier of the same block that it signals.
void aimAt(Warp &w, const Inst &inst, unsigned lane, const Operand &to,
           const Operand &mbarrier, BulkCopy &copy) {
  u64 address = sharedAddress(w, inst, to, lane);
  copy.block = &ownerOf(w, inst, int(lane), address);
  boundShared(w, inst, int(lane), address, copy.bytes, copy.block);
  copy.shared = u32(address);
  Mbarrier &m = liveMbarrier(w, inst, int(lane),
                             w.laneValue(mbarrier, lane) + u64(s64(inst.c)),
                             Space::Cluster);
  if (m.block != copy.block)
    w.machine->fatal(
        4, w, inst, int(lane), "mbarrier", m.address,
        "the copy writes to the cluster's block " +
            std::to_string(copy.block->rank) + ", its mbarrier is in block " +
            std::to_string(m.block->rank) + "; both must be in one");
  copy.mbarrier = m.index;
}

/// The phase of an mbarrier that a copy counts in: who accesses memory.
struct Signal {
  u32 agent, count;
  explicit Signal(const BulkCopy &copy) {
    const Mbarrier &m = copy.block->mbarriers[copy.mbarrier];
    agent = copy.block->agents.mbarrier(m.index);
    count = m.phase;
  }
};

/// Issues a load for each block that is to have it: the one that it names, or
/// with .multicast::cluster those of the mask, at the same offsets.
template <class Check>
void deliver(Warp &w, const Inst &inst, unsigned lane, BulkCopy &copy,
             const Operand *mask, Check check) {
  auto issue = [&] {
    Signal by(copy);
    check(by);
    if (copy.block != w.block) {
      noteVisit(*copy.block, inst, by.agent, by.count);
      noteVisit(*w.block, inst, by.agent, by.count, true);
    }
    start(w, copy);
  };
  if (!mask)
    return issue();
  u32 ranks = w.words(*mask)[lane] & 0xffff;
  u32 size = u32(w.block->cluster->blocks.size());
  if (ranks == 0 || ranks >> size)
    w.machine->fatal(13, w, inst, int(lane), "cluster", ranks,
                     "the mask of a multicast is " + std::to_string(ranks) +
                         "; a cluster of " + std::to_string(size) +
                         " blocks takes 1 to " +
                         std::to_string((1u << size) - 1));
  u32 offset = copy.block->mbarriers[copy.mbarrier].address;
  for (; ranks; ranks &= ranks - 1) {
    u64 address = u64(std::countr_zero(ranks)) << kRankShift | copy.shared;
    copy.block = &ownerOf(w, inst, int(lane), address);
    copy.mbarrier =
        liveMbarrierOf(w, inst, int(lane), *copy.block, offset).index;
    issue();
    copy.further = true;
  }
}

// What a multicast reads is read once.
void profileBulk(Warp &w, const Inst &inst, const BulkCopy &copy, u64 moved,
                 u64 sectors) {
  LineProfile *line = w.machine->profileOf(w, inst);
  if (!line)
    return;
  Profile &p = w.machine->result.profile;
  line->sharedBytes += copy.bytes;
  (copy.stores() ? p.sharedLoadBytes : p.sharedStoreBytes) += copy.bytes;
  if (copy.further)
    return;
  line->globalBytes += moved;
  line->globalSectors += sectors;
  (copy.stores() ? p.globalStoreBytes : p.globalLoadBytes) += moved;
}

// A tensor copy's accesses: global memory by rows; shared memory as a whole,
// but of a store what lies in the tensor: the rest is not used, so anything may
// stand there.
void checkTensor(Warp &w, const Inst &inst, int lane, const BulkCopy &copy,
                 bool load, u32 sharedAgent, u32 globalAgentId, u32 count) {
  Block *owner = copy.block;
  if (copy.shared % 128)
    w.machine->fatal(4, w, inst, lane, "shared", copy.shared,
                     "a tensor copy's shared address is a multiple of 128");
  u32 span = copy.map.swizzle;
  forEachRun(copy.shared, copy.bytes, span, [&](u32 address, u32 bytes) {
    boundShared(w, inst, lane, address, bytes, owner);
  });
  AccessKind kind;
  kind.write = !load;
  u64 moved = 0;
  forEachRow(copy.map, copy.coords, load, [&](const BoxRow &row) {
    moved += row.inside;
    if (row.inside)
      checkGlobalAs(w, inst, lane, globalAgentId, count, row.global, row.inside,
                    kind);
  });
  if (load || moved == copy.bytes)
    forEachRun(copy.shared, copy.bytes, span, [&](u32 address, u32 bytes) {
      checkSharedAs(w, inst, sharedAgent, count, address, bytes, load, -1,
                    owner);
    });
  else
    forEachRow(copy.map, copy.coords, load, [&](const BoxRow &row) {
      for (u32 at = row.skip; at < row.skip + row.inside;) {
        u32 next = std::min(at / 16 * 16 + 16, row.skip + row.inside);
        u32 linear = copy.shared + row.offset + at;
        checkSharedAs(w, inst, sharedAgent, count, swizzled(linear, span),
                      next - at, false);
        at = next;
      }
    });
  profileBulk(w, inst, copy, moved, (moved + 31) / 32);
}

void storing(Warp &w, BulkCopy &copy, u32 lane) {
  copy.group = w.bulkGroup;
  w.bulkLast = w.bulkGroup;
  w.bulkLanes |= 1u << lane;
}

// Load: shared address, map, coordinates, mbarrier, [mask]. Store: map,
// coordinates, shared address. Inst: a = rank, b = load.
Flow tensorCopy(Warp &w, const Inst &inst, u32 mask) {
  Block &block = *w.block;
  unsigned rank = unsigned(inst.a), at = inst.b ? 1 : 0;
  if (!inst.b)
    checkRelease(w, inst, mask, false);
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    BulkCopy copy;
    copy.kind = inst.b ? BulkCopy::TensorLoad : BulkCopy::TensorStore;
    copy.warp = &w;
    copy.inst = &inst;
    copy.block = &block;
    copy.map = fetchMap(w, inst, int(l), w.laneValue(inst.ops[at], l), inst.b);
    if (copy.map.rank != rank)
      w.machine->fatal(4, w, inst, int(l), "tensor map", 0,
                       "the tensor map has rank " +
                           std::to_string(copy.map.rank));
    for (unsigned k = 0; k < rank; ++k)
      copy.coords[k] = s32(w.lanes32(inst.ops[at + 1 + k], l));
    for (unsigned k = 0; k < rank && !inst.b; ++k)
      if (copy.coords[k] < 0)
        w.machine->fatal(
            4, w, inst, int(l), "tensor map", 0,
            "coordinate " + std::to_string(k) +
                " of a store is negative: " + std::to_string(copy.coords[k]));
    if (copy.coords[0] * s64(copy.map.elementBytes) % 16)
      w.machine->fatal(4, w, inst, int(l), "tensor map", 0,
                       "the innermost coordinate " +
                           std::to_string(copy.coords[0]) +
                           " is not a multiple of 16 bytes");
    copy.bytes = u32(boxBytes(copy.map));
    if (inst.b) {
      aimAt(w, inst, l, inst.ops[0], inst.ops[rank + 2], copy);
      deliver(w, inst, l, copy, inst.multicast ? inst.ops + rank + 3 : nullptr,
              [&](Signal by) {
                checkTensor(w, inst, int(l), copy, true, by.agent, by.agent,
                            by.count);
              });
      continue;
    }
    u64 shared = ownOffset(w, inst, int(l),
                           sharedAddress(w, inst, inst.ops[rank + 1], l));
    boundShared(w, inst, int(l), shared, copy.bytes);
    copy.shared = u32(shared);
    storing(w, copy, l);
    checkTensor(w, inst, int(l), copy, false, block.agents.bulkReads(w.id),
                block.agents.bulkWrites(w.id), copy.group);
    start(w, copy);
  }
  ++w.work;
  return Flow::Next;
}

void checkAlignment(Warp &w, const Inst &inst, unsigned lane, u64 shared,
                    u64 other, u32 bytes) {
  if (bytes == 0 || bytes % 16 || other % 16 || shared % 16)
    w.machine->fatal(
        4, w, inst, int(lane), "shared", shared,
        "addresses and size of a bulk copy are multiples of 16, and the "
        "size is not 0");
}

// Load: shared, global, size, mbarrier, [mask]. Store: global, shared, size.
Flow bulkCopy(Warp &w, const Inst &inst, u32 mask) {
  Block &block = *w.block;
  if (!inst.b)
    checkRelease(w, inst, mask, false);
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    BulkCopy copy;
    copy.kind = inst.b ? BulkCopy::Load : BulkCopy::Store;
    copy.warp = &w;
    copy.inst = &inst;
    copy.block = &block;
    u64 shared = sharedAddress(w, inst, inst.ops[inst.b ? 0 : 1], l);
    copy.global = w.laneValue(inst.ops[inst.b ? 1 : 0], l) + u64(s64(inst.d));
    copy.bytes = w.lanes32(inst.ops[2], l);
    checkAlignment(w, inst, l, shared, copy.global, copy.bytes);
    AccessKind kind;
    if (inst.b) {
      aimAt(w, inst, l, inst.ops[0], inst.ops[3], copy);
      deliver(w, inst, l, copy, inst.multicast ? inst.ops + 4 : nullptr,
              [&](Signal by) {
                checkSharedAs(w, inst, by.agent, by.count, copy.shared,
                              copy.bytes, true, -1, copy.block);
                checkGlobalAs(w, inst, int(l), by.agent, by.count, copy.global,
                              copy.bytes, kind);
                profileBulk(w, inst, copy, copy.bytes, copy.bytes / 32);
              });
    } else {
      shared = ownOffset(w, inst, int(l), shared);
      boundShared(w, inst, int(l), shared, copy.bytes);
      copy.shared = u32(shared);
      storing(w, copy, l);
      kind.write = true;
      checkSharedAs(w, inst, block.agents.bulkReads(w.id), copy.group,
                    copy.shared, copy.bytes, false);
      checkGlobalAs(w, inst, int(l), block.agents.bulkWrites(w.id), copy.group,
                    copy.global, copy.bytes, kind);
      profileBulk(w, inst, copy, copy.bytes, copy.bytes / 32);
      start(w, copy);
    }
  }
  ++w.work;
  return Flow::Next;
}

// Between shared memories of a cluster: to, from, size, mbarrier. The source
// is in use until the destination's mbarrier says so.
Flow exchange(Warp &w, const Inst &inst, u32 mask) {
  Machine &m = *w.machine;
  checkRelease(w, inst, mask, false);
  for (; mask; mask &= mask - 1) {
    unsigned l = unsigned(std::countr_zero(mask));
    BulkCopy copy;
    copy.kind = BulkCopy::Exchange;
    copy.warp = &w;
    copy.inst = &inst;
    copy.bytes = w.lanes32(inst.ops[2], l);
    u64 from = withoutWindow(w.laneValue(inst.ops[1], l) + u64(s64(inst.d)));
    from = ownOffset(w, inst, int(l), from);
    checkAlignment(w, inst, l, sharedAddress(w, inst, inst.ops[0], l), from,
                   copy.bytes);
    boundShared(w, inst, int(l), from, copy.bytes);
    copy.from = u32(from);
    aimAt(w, inst, l, inst.ops[0], inst.ops[3], copy);
    deliver(w, inst, l, copy, nullptr, [&](Signal by) {
      checkSharedAs(w, inst, by.agent, by.count, copy.from, copy.bytes, false);
      checkSharedAs(w, inst, by.agent, by.count, copy.shared, copy.bytes, true,
                    -1, copy.block);
    });
    if (LineProfile *line = m.profileOf(w, inst)) {
      line->sharedBytes += 2 * copy.bytes;
      m.result.profile.sharedLoadBytes += copy.bytes;
      m.result.profile.sharedStoreBytes += copy.bytes;
    }
  }
  ++w.work;
  return Flow::Next;
}

Flow commit(Warp &w, const Inst &, u32) {
  ++w.bulkGroup;
  return Flow::Next;
}

// Inst: a = groups that may stay pending, b = .read
Flow waitGroup(Warp &w, const Inst &inst, u32 mask) {
  u32 committed = w.bulkGroup - 1, pending = u32(inst.a);
  u32 done = committed > pending ? committed - pending : 0;
  completeBulkOf(*w.machine, w, done);
  if (!w.machine->checks())
    return Flow::Next;
  if (u32 others = w.bulkLanes & ~mask)
    w.machine->error(4, w, inst, std::countr_zero(others), "shared", 0,
                     "bulk wait leaves out the lanes that issued the copies");
  const Agents &agents = w.block->agents;
  u32 &reads = w.clocks.g.own[agents.bulkReads(w.id)];
  reads = std::max(reads, done);
  w.bulkReadWaited = std::max(w.bulkReadWaited, done);
  if (!inst.b) {
    u32 &writes = w.clocks.g.own[agents.bulkWrites(w.id)];
    writes = std::max(writes, done);
  }
  if (pending == 0)
    w.bulkLanes = 0;
  return Flow::Next;
}

} // namespace

bool decodeBulk(Decoder &d) {
  Inst &inst = d.inst;
  if (d.builder.program.capability < 90)
    d.fail("bulk copies need sm_90");
  d.need("bulk");
  inst.sync = true;
  if (d.eat("commit_group")) {
    d.operands(0);
    d.emit(commit, Category::Synchronize);
    return true;
  }
  if (d.eat("wait_group")) {
    inst.b = d.eat("read");
    d.operands(1);
    s64 n = d.literal(0);
    if (n < 0 || n > 1 << 20)
      d.fail("the number of groups must be 0 to 2^20");
    inst.a = s32(n);
    d.emit(waitGroup, Category::Synchronize);
    return true;
  }
  bool tensor = d.eat("tensor");
  int rank = tensor ? d.eatAny({"1d", "2d", "3d", "4d", "5d"}) + 1 : 0;
  if (tensor && rank == 0)
    return false;
  inst.a = rank;
  // The direction: destination first.
  bool load = d.has("mbarrier::complete_tx::bytes");
  inst.b = load;
  if (d.eatAny(load ? std::initializer_list<std::string_view>{"shared::cluster",
                                                              "shared::cta"}
                    : std::initializer_list<std::string_view>{"shared::cta"}) <
      0)
    return false;
  bool between = load && !tensor && d.eat("shared::cta");
  if (!between)
    d.need("global");
  if (tensor)
    d.eat("tile");
  d.need(load ? "mbarrier::complete_tx::bytes" : "bulk_group");
  inst.multicast = load && !between && d.eat("multicast::cluster");
  bool hint = !between && d.eat("L2::cache_hint");
  auto mapAndCoordinates = [&](size_t index) {
    d.address(index);
    const auto &coordinates = d.at(index).elements;
    if (coordinates.size() != size_t(rank) || d.at(index).offset != 0)
      d.fail("expected [map, {" + std::to_string(rank) + " coordinates}]");
    for (const RawOperand &c : coordinates)
      d.add(c, Type::S32, Role::Source);
  };
  s64 sharedOffset = 0, mbarrierOffset = 0, globalOffset = 0;
  auto address = [&](size_t index, s64 &offset) {
    d.address(index);
    offset = d.at(index).offset;
    if (offset != s32(offset))
      d.fail("the offset of an address is not within 32 bits");
  };
  size_t operands = tensor ? (load ? 3 : 2) : (load ? 4 : 3);
  d.operands(operands + inst.multicast + hint);
  if (tensor && load) {
    address(0, sharedOffset);
    mapAndCoordinates(1);
    address(2, mbarrierOffset);
  } else if (tensor) {
    mapAndCoordinates(0);
    address(1, sharedOffset);
  } else {
    address(0, load ? sharedOffset : globalOffset);
    address(1, load ? globalOffset : sharedOffset);
    d.src(2, Type::U32);
    if (load)
      address(3, mbarrierOffset);
  }
  inst.offset = sharedOffset;
  inst.c = s32(mbarrierOffset);
  inst.d = s32(globalOffset);
  if (inst.multicast)
    d.src(operands, Type::B16);
  if (hint)
    d.src(operands + inst.multicast, Type::U64);
  d.emit(tensor    ? tensorCopy
         : between ? exchange
                   : bulkCopy,
         Category::AsyncCopy);
  return true;
}

} // namespace fa2::sim
