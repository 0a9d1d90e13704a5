//===- Memory.cpp - ld, st, fences (PTX ISA 9.7.9.8 to 9.7.9.12) ----------===//

#include "Access.h"
#include "Lanes.h"
#include "Order.h"

namespace fa2::sim {
namespace {

/// The lanes' addresses, split by the space they are in.
struct Resolved {
  u64 address[kWarpSize];
  u32 offset[kWarpSize];   ///< in shared, local or parameter memory
  Block *owner[kWarpSize]; ///< of `others`' shared memory
  u32 global = 0, shared = 0, others = 0, local = 0, param = 0;
};

void resolve(Warp &w, const Inst &inst, const Operand &base, u32 mask,
             Resolved &r) {
  for (u32 rest = mask; rest; rest &= rest - 1) {
    unsigned l = unsigned(std::countr_zero(rest));
    u64 a = w.laneValue(base, l) + u64(inst.offset);
    u32 bit = 1u << l;
    auto shared = [&] {
      r.owner[l] = &ownerOf(w, inst, int(l), a);
      (r.owner[l] == w.block ? r.shared : r.others) |= bit;
    };
    switch (inst.space) {
    case Space::Global:
      r.address[l] = a;
      r.global |= bit;
      continue;
    case Space::Shared:
      r.shared |= bit;
      a = ownOffset(w, inst, int(l), a);
      break;
    case Space::Cluster:
      shared();
      break;
    case Space::Local:
      r.local |= bit;
      break;
    case Space::Param:
      r.param |= bit;
      break;
    default:
      r.address[l] = a;
      switch (a & kWindowMask) {
      case 0:
        r.global |= bit;
        continue;
      case kSharedWindow:
        a = withoutWindow(a);
        shared();
        break;
      case kLocalWindow:
        r.local |= bit;
        break;
      case kParamWindow:
        r.param |= bit;
        break;
      default:
        w.machine->fatal(11, w, inst, int(l), "generic", a,
                         "no memory has this generic address");
      }
      a &= ~kWindowMask;
    }
    // Shared addresses are offsets; anything above 32 bits is out of bounds.
    if (a >> 32)
      w.machine->fatal(11, w, inst, int(l), "memory", a,
                       "address is far outside its space");
    r.offset[l] = u32(a);
  }
}

void boundSmall(Warp &w, const Inst &inst, unsigned lane, u64 offset, u32 bytes,
                u64 size, const char *space) {
  if (offset + bytes > size)
    w.machine->fatal(11, w, inst, int(lane), space, offset,
                     "access outside " + std::string(space) + " memory of " +
                         std::to_string(size) + " bytes");
}

/// Host address of each active lane's bytes, after all checks.
void locate(Warp &w, const Inst &inst, Resolved &r, u32 bytes, bool write,
            u8 **out) {
  Machine &m = *w.machine;
  bool strong = inst.sem >= Sem::Relaxed || inst.sem == Sem::Volatile;
  if (r.global) {
    AccessKind kind;
    kind.write = write;
    kind.strong = strong;
    kind.readOnly = !write && inst.b;
    checkGlobal(w, inst, r.global, r.address, bytes, kind);
    if (m.options.profile)
      profileGlobal(w, inst, r.global, r.address, bytes, write);
    for (u32 rest = r.global; rest; rest &= rest - 1) {
      int l = std::countr_zero(rest);
      out[l] = reinterpret_cast<u8 *>(r.address[l]);
    }
  }
  if (r.shared) {
    AccessKind kind;
    kind.write = write;
    checkShared(w, inst, r.shared, r.offset, bytes, kind);
    if (m.options.profile)
      profileShared(w, inst, r.shared, r.offset, bytes, write);
    for (u32 rest = r.shared; rest; rest &= rest - 1) {
      int l = std::countr_zero(rest);
      out[l] = w.block->shared.data() + r.offset[l];
    }
  }
  for (u32 rest = r.others; rest;) {
    Block *owner = r.owner[std::countr_zero(rest)];
    u32 same = 0;
    for (u32 each = rest; each; each &= each - 1) {
      int l = std::countr_zero(each);
      if (r.owner[l] != owner)
        continue;
      same |= 1u << l;
      out[l] = owner->shared.data() + r.offset[l];
    }
    AccessKind kind;
    kind.write = write;
    checkShared(w, inst, same, r.offset, bytes, kind, owner);
    if (m.options.profile)
      profileShared(w, inst, same, r.offset, bytes, write);
    rest &= ~same;
  }
  for (u32 rest = r.local; rest; rest &= rest - 1) {
    unsigned l = unsigned(std::countr_zero(rest));
    u64 size = w.block->kernel->localBytes;
    boundSmall(w, inst, l, r.offset[l], bytes, size, "local");
    out[l] = w.local.data() + size * l + r.offset[l];
  }
  for (u32 rest = r.param; rest; rest &= rest - 1) {
    unsigned l = unsigned(std::countr_zero(rest));
    const auto &parameters = w.block->grid->launch->parameters;
    boundSmall(w, inst, l, r.offset[l], bytes, parameters.size(), "param");
    if (write)
      m.fatal(11, w, inst, int(l), "param", r.offset[l],
              "parameters cannot be written");
    out[l] = const_cast<u8 *>(parameters.data()) + r.offset[l];
  }
}

u64 loadElement(const u8 *from, Type t) {
  u64 v = 0;
  std::memcpy(&v, from, bytesOf(t));
  switch (t) { // sign-extended to the register (9.4.1)
  case Type::S8:
    return u64(s64(s8(v)));
  case Type::S16:
    return u64(s64(s16(v)));
  case Type::S32:
    return u64(s64(s32(v)));
  default:
    return v;
  }
}

// Operands: destinations, base.
Flow load(Warp &w, const Inst &inst, u32 mask) {
  Resolved r;
  const Operand &base = inst.ops[inst.vec];
  resolve(w, inst, base, mask, r);
  u32 size = bytesOf(inst.type), bytes = size * inst.vec;
  if (inst.sem >= Sem::Relaxed && r.global &&
      pollsAgain(w, inst, r.address, r.global, size))
    return Flow::Stay;
  u8 *at[kWarpSize];
  locate(w, inst, r, bytes, false, at);
  for (unsigned k = 0; k < inst.vec; ++k) {
    const Operand &d = inst.ops[k];
    if (d.sink)
      continue;
    u32 *out = w.words(d);
    if (size == 4 && d.bytes == 4) {
      forLanes(mask,
               [&](unsigned l) { std::memcpy(out + l, at[l] + 4 * k, 4); });
    } else {
      for (u32 rest = mask; rest; rest &= rest - 1) {
        unsigned l = unsigned(std::countr_zero(rest));
        u64 v = loadElement(at[l] + size * k, inst.type);
        if (d.bytes == 8)
          putLane<u64>(out, l, v);
        else
          out[l] = inst.a ? u32(v) & 0xffff : u32(v);
      }
    }
  }
  if (r.global && inst.sem != Sem::Weak)
    observe(w, inst, r.address, r.global);
  return Flow::Next;
}

// Operands: base, sources.
Flow store(Warp &w, const Inst &inst, u32 mask) {
  Resolved r;
  resolve(w, inst, inst.ops[0], mask, r);
  u32 size = bytesOf(inst.type), bytes = size * inst.vec;
  if (inst.sem == Sem::Release)
    checkRelease(w, inst, mask, true);
  u8 *at[kWarpSize];
  locate(w, inst, r, bytes, true, at);
  for (unsigned k = 0; k < inst.vec; ++k) {
    const Operand &s = inst.ops[1 + k];
    const u32 *in = w.words(s);
    for (u32 rest = mask; rest; rest &= rest - 1) {
      unsigned l = unsigned(std::countr_zero(rest));
      u64 v = s.bytes == 8 ? getLane<u64>(in, l) : in[l];
      std::memcpy(at[l] + size * k, &v, size);
    }
  }
  // Two lanes with different values on the same bytes: which one wins is
  // undefined.
  if (w.machine->checks() && (r.shared | r.others | r.global))
    for (unsigned k = 0; k < inst.vec; ++k)
      for (u32 rest = mask; rest; rest &= rest - 1) {
        unsigned l = unsigned(std::countr_zero(rest));
        const Operand &s = inst.ops[1 + k];
        u64 v = s.bytes == 8 ? w.lane64(s, l) : w.words(s)[l];
        if (std::memcmp(at[l] + size * k, &v, size) != 0)
          w.machine->error(1, w, inst, int(l), "memory", 0,
                           "lanes of one store write different values to the "
                           "same bytes");
      }
  ++w.work;
  if (r.global) {
    ++w.machine->globalVersion;
    if (inst.sem != Sem::Weak)
      publish(w, inst, r.address, r.global, false);
  }
  if (inst.sem == Sem::Release)
    advanceEpoch(w);
  return Flow::Next;
}

// fence{.sc,.acq_rel}.scope, membar (9.7.13.4)
Flow fence(Warp &w, const Inst &inst, u32) {
  fenceOrder(w);
  if (!inst.hasCta)
    w.storedToOthers = false;
  return Flow::Next;
}
// fence.mbarrier_init: of this warp's mbarrier.init, and of no other access.
Flow fenceInit(Warp &w, const Inst &, u32) {
  if (w.machine->checks() && w.block->cluster->blocks.size() > 1) {
    w.initFence = w.epoch;
    advanceEpoch(w);
  }
  return Flow::Next;
}
// fence.proxy.async: A = G (rule 5)
Flow fenceProxy(Warp &w, const Inst &, u32) {
  if (w.machine->checks()) {
    w.clocks.a.join(w.clocks.g);
    advanceEpoch(w);
  }
  return Flow::Next;
}
Flow nothing(Warp &, const Inst &, u32) { return Flow::Next; }

bool decodeFence(Decoder &d) {
  d.operands(0);
  if (d.root == "membar") {
    int scope = d.eatAny({"cta", "gl", "sys"});
    if (scope < 0)
      return false;
    d.inst.hasCta = scope == 0;
    d.emit(fence, Category::Synchronize);
    return true;
  }
  if (d.eat("proxy")) {
    d.need("async");
    // .shared::cta, .global or none: all are read as the whole fence.
    d.eatAny({"shared::cta", "shared::cluster", "global"});
    d.emit(fenceProxy, Category::Synchronize);
    return true;
  }
  if (d.eat("mbarrier_init")) {
    d.need("release");
    d.need("cluster");
    d.emit(fenceInit, Category::Synchronize);
    return true;
  }
  d.eatAny({"sc", "acq_rel"});
  int scope = d.eatAny({"cta", "cluster", "gpu", "sys"});
  if (scope < 0)
    return false;
  d.inst.hasCta = scope == 0;
  d.emit(fence, Category::Synchronize);
  return true;
}

// createpolicy: its bits are opaque, and no access depends on them.
Flow createPolicy(Warp &w, const Inst &inst, u32 mask) {
  u32 *d = w.words(inst.ops[0]);
  forLanes(mask, [&](unsigned l) { putLane<u64>(d, l, u64(inst.a) << 32); });
  return Flow::Next;
}

bool decodePolicy(Decoder &d) {
  d.need("fractional");
  d.inst.a = 1 + d.eatAny({"L2::evict_last", "L2::evict_normal",
                           "L2::evict_first", "L2::evict_unchanged"});
  if (d.inst.a == 0)
    return false;
  // What the rest of the addresses get.
  d.eatAny({"L2::evict_first", "L2::evict_unchanged"});
  d.need("b64");
  d.operands(1, 2);
  d.dst(0, Type::U64);
  if (d.raw.operands.size() == 2)
    d.src(1, Type::F32);
  d.emit(createPolicy, Category::OtherMemory);
  return true;
}

} // namespace

bool decodeMemory(Decoder &d) {
  if (d.root == "fence" || d.root == "membar")
    return decodeFence(d);
  if (d.root == "createpolicy")
    return decodePolicy(d);
  Inst &inst = d.inst;
  if (d.root == "prefetch" || d.root == "prefetchu") {
    // Hints (9.7.9.15). Tensor maps are in constant or parameter space, or
    // named by a generic address; levels go with the other spaces.
    int space = d.eatAny({"global", "local", "const", "param"});
    bool map = d.root == "prefetch" && d.eat("tensormap");
    if (map ? space == 0 || space == 1
            : space > 1 || d.eatAny({"L1", "L2", "L2::evict_last",
                                     "L2::evict_normal"}) < 0)
      return false;
    if (map && d.builder.program.capability < 90)
      d.fail("prefetch.tensormap needs sm_90");
    d.operands(1);
    d.address(0);
    d.emit(nothing, Category::OtherMemory);
    return true;
  }
  bool isLoad = d.root == "ld";
  static constexpr Sem sems[] = {Sem::Weak, Sem::Volatile, Sem::Relaxed,
                                 Sem::Acquire, Sem::Release};
  int sem = d.eatAny({"weak", "volatile", "relaxed", "acquire", "release"});
  if (sem > 0)
    inst.sem = sems[sem];
  if (inst.sem == (isLoad ? Sem::Release : Sem::Acquire))
    return false;
  int scope = d.eatAny({"cta", "cluster", "gpu", "sys"});
  if ((inst.sem >= Sem::Relaxed) != (scope >= 0))
    d.fail("a strong access needs a scope, a weak one has none");
  inst.hasCta = scope == 0;
  static constexpr Space spaces[] = {Space::Global, Space::Shared,
                                     Space::Shared, Space::Local,
                                     Space::Param,  Space::Cluster};
  int space = d.eatAny(
      {"global", "shared", "shared::cta", "local", "param", "shared::cluster"});
  if (space == 5 && d.builder.program.capability < 90)
    d.fail("shared::cluster needs sm_90");
  inst.space = space < 0 ? Space::Generic : spaces[space];
  d.eatAny({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  bool nc = d.eat("nc");
  if (nc && (!isLoad || inst.space != Space::Global))
    return false;
  inst.b = nc;
  // Hints change no result (9.7.9.8).
  while (d.eatAny({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
                   "L1::evict_last", "L1::no_allocate", "L2::64B", "L2::128B",
                   "L2::256B", "L2::evict_last", "L2::evict_first",
                   "L2::evict_normal"}) >= 0)
    ;
  bool hint = d.eat("L2::cache_hint");
  inst.vec = d.eat("v2") ? 2 : d.eat("v4") ? 4 : 1;
  inst.type = d.type();
  u32 size = bytesOf(inst.type);
  if (size == 0 || size * inst.vec > 16)
    d.fail("an access has 1 to 16 bytes");
  d.operands(hint ? 3 : 2);
  auto values = [&](size_t index, Role role) {
    const RawOperand &v = d.at(index);
    if ((v.kind == RawOperand::Vector) != (inst.vec > 1) ||
        (inst.vec > 1 && v.elements.size() != inst.vec))
      d.fail("expected " + std::to_string(inst.vec) + " values");
    for (unsigned k = 0; k < inst.vec; ++k)
      d.addRelaxed(inst.vec > 1 ? v.elements[k] : v, inst.type, role);
  };
  if (isLoad) {
    values(0, Role::Destination);
    const RawOperand &first = inst.vec > 1 ? d.at(0).elements[0] : d.at(0);
    if (first.kind == RawOperand::Symbol)
      inst.a =
          bytesOf(d.builder.registerNamed(d.raw.line, first.name).type) == 2;
    d.address(1);
  } else {
    d.address(0);
    values(1, Role::Source);
  }
  if (hint)
    d.src(2, Type::U64);
  Category c = inst.space == Space::Global || inst.space == Space::Generic
                   ? Category::GlobalMemory
               : inst.space == Space::Shared || inst.space == Space::Cluster
                   ? Category::SharedMemory
                   : Category::OtherMemory;
  inst.sync = inst.sem != Sem::Weak;
  d.builder.kernel.listens |=
      isLoad && c == Category::GlobalMemory && inst.sem >= Sem::Relaxed;
  d.emit(isLoad ? load : store, c);
  return true;
}

} // namespace fa2::sim
