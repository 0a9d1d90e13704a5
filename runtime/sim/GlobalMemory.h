//===- GlobalMemory.h - Legal addresses and races of global memory -*- C++ -*-//
#ifndef FA2_RUNTIME_SIM_GLOBALMEMORY_H
#define FA2_RUNTIME_SIM_GLOBALMEMORY_H

#include "Clocks.h"

#include <unordered_map>

namespace fa2::sim {

/// A Region made fit for lookups: dimensions by falling stride, neighbours
/// that are contiguous merged, negative strides turned round.
class RegionState {
public:
  explicit RegionState(const Region &region);
  const Region *region;
  u64 low = 0, high = 0; ///< bounding box of addresses; low == high: empty
  /// True when [address, address + bytes) lies in elements only; `index` is
  /// the number of its first element in an enumeration without gaps.
  bool locate(u64 address, u32 bytes, u64 &index);
  u64 elements = 1;
  std::vector<u8> stores; ///< by element: 0, 1 or 2 (more than once)
  bool counts() const { return region->storedOnce || !region->initialised; }

private:
  bool search(u64 offset, size_t dim, u32 bytes, u64 &index) const;
  struct Dim {
    u64 stride, extent, linear;
  };
  std::vector<Dim> dims;
  u64 runBytes = 0; ///< of the innermost contiguous run
  bool nested = true;
  u64 runLow = 1, runHigh = 0, runIndex = 0; ///< the run last found
};

/// Who accesses, for the race check (rule 8).
struct GlobalBy {
  GlobalAgent agent = 0;
  u32 count = 0;
  const Clock *order = nullptr;
  u64 block = 0;
  u64 firstBlock = 0, endBlock = 0; ///< of this grid
  u64 overlaps = 0; ///< blocks from here to firstBlock may run beside it
  u32 line = 0;
  bool strong = false, write = false, rmwFloat = false;
  bool readOnly = false; ///< of memory that nobody writes meanwhile
};

struct GlobalConflict {
  GlobalAgent agent = 0;
  u32 line = 0;
  u64 address = 0;
  bool wasWrite = false;
  bool nondeterministic = false; ///< two unordered f32 read-modify-writes
  /// Of a kernel before, or behind, that overlaps with this one (rule 9).
  bool before = false, behind = false;
  bool stale = false; ///< a read-only load of what that one writes
};

class GlobalMemory {
public:
  explicit GlobalMemory(const std::vector<Region> &regions);
  /// The region that allows the access, null when none does.
  RegionState *find(u64 address, u32 bytes, bool write, u64 &index);
  /// A region whose bounding box holds the address, for messages.
  std::string describe(u64 address) const;
  /// Checks and records; true when there was a conflict.
  bool access(u64 address, u32 bytes, const GlobalBy &by, bool deterministic,
              GlobalConflict &conflict);
  std::vector<RegionState> regions;

  /// Release sequences: what an acquire of that word receives.
  std::unordered_map<u64, std::shared_ptr<Clock>> releases;

private:
  struct Stamp {
    GlobalAgent agent = 0;
    u32 count = 0, line = 0; ///< count 0: empty
    u8 mask = 0;
    bool strong = false, rmwFloat = false;
  };
  struct Word {
    Stamp writes[2], reads[2];
  };
  static constexpr unsigned kPageWords = 256;
  using Page = std::array<Word, kPageWords>;
  Word &word(u64 index);
  std::unordered_map<u64, std::unique_ptr<Page>> pages;
  u64 lastIndex = ~u64(0);
  Page *lastPage = nullptr;
  RegionState *lastRead = nullptr, *lastWrite = nullptr;
};

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_GLOBALMEMORY_H
