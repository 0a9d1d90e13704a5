//===- Placement.h - places in shared memory --------------------*- C++ -*-===//
//
// Plain C++, for fa2gpu-allocate, which places the rings of a kernel, and for
// the footprint, which places what a schedule says before there is a kernel.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_SCHEDULE_PLACEMENT_H
#define FA2_SCHEDULE_PLACEMENT_H

#include <cstdint>
#include <vector>

namespace fa2 {

/// A ring, or a tile: what has bytes of its own as long as it lives.
struct Piece {
  int64_t bytes = 0, alignment = 1;
  /// The first and the last moment at which they hold something.
  int64_t first = 0, last = 0;
  /// Bytes of mbarriers.
  int64_t barriers = 0;
  /// Whether its bytes stand behind its mbarriers: those of a queue of tiles.
  bool isQueue = false;

  int64_t offset = 0, barriersOffset = 0;

  bool meets(const Piece &o) const {
    return first <= o.last && o.first <= last;
  }
  bool sharesBytes(const Piece &o) const {
    return offset < o.offset + o.bytes && o.offset < offset + bytes;
  }
};

/// Largest first, each piece takes the lowest place that is free all its life.
/// Returns all bytes, as do the others.
int64_t placeByLife(std::vector<Piece> &pieces);

/// One behind the other, whenever they live, and then mbarriers: of what roles
/// use at the same time.
int64_t placeSideBySide(std::vector<Piece> &pieces);

} // namespace fa2

#endif
