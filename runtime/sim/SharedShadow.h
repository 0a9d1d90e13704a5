//===- SharedShadow.h - Races of shared memory -----------------*- C++ -*-===//
//
// What is known of four bytes: two writers (halves of a word may have
// different ones) and up to 16 readers (rules 1, 4, 5 and 7). Most accesses
// take 16 bytes and more: those that were only ever accessed together are known
// together.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RUNTIME_SIM_SHAREDSHADOW_H
#define FA2_RUNTIME_SIM_SHAREDSHADOW_H

#include "Clocks.h"

#include <cstdlib>

namespace fa2::sim {

struct SharedBy {
  u32 agent = 0, count = 0; ///< the stamp
  u32 issuer = 0;           ///< the warp, as an agent
  const Clocks *clocks = nullptr;
  u32 syncEpoch = 0;
  u32 copiesSynced = 0; ///< cp.async groups that all lanes see
  u32 inst = 0;         ///< index in the kernel
  u8 lane = 0xff;       ///< 0xff: the warp as a whole
  bool write = false, async = false, atomic = false;
};

struct SharedConflict {
  enum Kind : u8 { None, Unwritten, Race, AsyncRace, Proxy, ProxyRead, Lanes };
  Kind kind = None;
  u32 agent = 0, inst = 0, address = 0;
  bool wasWrite = false;
};

class SharedShadow {
public:
  /// Forgets everything; `bytes` from address 0 on.
  void reset(u32 bytes);
  /// Checks and records [address, address + bytes).
  void access(const Agents &agents, const SharedBy &by, u32 address, u32 bytes,
              SharedConflict &conflict);

private:
  struct Stamp {
    u32 count;
    u16 agent, inst;
    u8 mask; ///< 0: empty
    u8 lane;
    bool async, atomic;
  };
  /// A reader in 8 bytes: counts of 2^24 and more are taken as 2^24 - 1.
  struct Reader {
    u32 countLane; ///< count << 8 | atomic << 7 | async << 6 | lane, or 63
    u16 inst;
    u16 agentMask; ///< agent << 4 | mask: agents are fewer than 2^12
    u32 count() const { return countLane >> 8; }
    u16 agent() const { return agentMask >> 4; }
    Stamp stamp() const {
      u8 lane = countLane & 63;
      return {count(),
              agent(),
              inst,
              u8(agentMask & 15),
              lane == 63 ? u8(0xff) : lane,
              (countLane & 64) != 0,
              (countLane & 128) != 0};
    }
    static Reader of(const Stamp &s) {
      return {std::min(s.count, 0xffffffu) << 8 | u32(s.atomic) << 7 |
                  u32(s.async) << 6 | (s.lane & 63u),
              s.inst, u16(s.agent << 4 | s.mask)};
    }
  };
  static constexpr unsigned kReaders = 16;
  /// Of a word, or of all words of a unit. All zero: never touched.
  struct State {
    u32 generation;
    u8 readers;
    u8 written; ///< bytes
    bool split; ///< a unit's words differ: what is known stands there
    Stamp writes[2];
    Reader reads[kReaders];
  };
  static constexpr u32 kWord = 4, kUnit = 16; ///< bytes

  /// One access of a state's bytes `mask`, from `address` on.
  struct Access {
    const Agents &agents;
    const SharedBy &by;
    SharedConflict &conflict;
    void record(State &state, u8 mask, u32 address);

  private:
    SharedConflict::Kind relation(const Stamp &other, bool otherWrites) const;
    void note(SharedConflict::Kind kind, const Stamp &other, u32 address,
              bool wasWrite);
    void write(State &state, Stamp stamp, u32 address);
    void read(State &state, Stamp stamp);
  };
  /// That of this launch.
  State &current(State &state);
  void split(u32 unit);

  /// Zero-filled on demand by the system: only what is used takes memory.
  struct Free {
    void operator()(State *p) const { std::free(p); }
  };
  using States = std::unique_ptr<State[], Free>;
  static States allocate(u32 count);
  States units, words;
  u32 capacity = 0, generation = 0; ///< capacity in units
};

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_SHAREDSHADOW_H
