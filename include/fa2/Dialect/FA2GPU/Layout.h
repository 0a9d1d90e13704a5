//===- Layout.h - where the elements of a tile are --------------*- C++ -*-===//
//
// Plain C++, no MLIR: maps between coordinates of a tile and (warp, lane,
// register), or byte addresses in shared memory. Matrix fragments are linear
// maps over bits (each bit of the lane and register number adds one basis
// coordinate), so they are tables of basis coordinates; a tile is a grid of
// fragments.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_DIALECT_FA2GPU_LAYOUT_H
#define FA2_DIALECT_FA2GPU_LAYOUT_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2::gpu {

constexpr int64_t kWarpLanes = 32;
/// Bytes in shared memory of an mbarrier, and of a tile that is said in a
/// queue.
constexpr int64_t kBarrierBytes = 8, kQueueSlotBytes = 16;
/// Tiles that the role which draws them may be ahead of the others.
constexpr int64_t kQueueSlots = 2;

struct Coord {
  int64_t row = 0, col = 0;
  bool operator==(const Coord &) const = default;
  Coord operator+(Coord o) const { return {row + o.row, col + o.col}; }
};

/// One instruction's block of elements in the lanes of a warp: the coordinate
/// of (lane, reg) is the sum of the basis coordinates of their set bits.
struct Fragment {
  int64_t rows, cols;
  std::vector<Coord> laneBits; // five, lowest bit first
  std::vector<Coord> regBits;  // log2(elements a lane), lowest bit first

  int64_t numRegs() const { return int64_t(1) << regBits.size(); }
  Coord at(int64_t lane, int64_t reg) const;
  /// The same fragment of the transposed matrix.
  Fragment transposed() const;
};

/// Columns of each of `parts` warps, or warpgroups, that share rows: multiples
/// of 16, as one ldmatrix brings them, and with `panelCols` whole panels of so
/// many, or a half or a quarter of one. The last ones' may be past the end.
int64_t columnsPerPart(int64_t cols, int64_t parts, int64_t panelCols = 0);

/// A tile cut into warpRows x warpCols equal parts, one a warp, each a grid of
/// fragments. Warps are counted `stacked` at a time, one below the other; these
/// stacks lie along the rows, then one below the other. Registers are numbered
/// fragment by fragment, rows of fragments first. Sizes that the fragment does
/// not divide are rounded up (padding), and so are columns that warps share
/// (columnsPerPart).
class TileLayout {
public:
  TileLayout(Fragment fragment, int64_t rows, int64_t cols, int64_t warpRows,
             int64_t warpCols, int64_t stacked = 1, int64_t panelCols = 0);

  const Fragment &fragment() const { return frag; }
  int64_t rows() const { return tileRows; }
  int64_t cols() const { return tileCols; }
  int64_t warps() const { return warpRows * warpCols; }
  /// Fragments a warp holds, down and across.
  int64_t fragRows() const { return gridRows; }
  int64_t fragCols() const { return gridCols; }
  int64_t numRegs() const { return gridRows * gridCols * frag.numRegs(); }
  int64_t reg(int64_t fragRow, int64_t fragCol, int64_t inFrag) const {
    return (fragRow * gridCols + fragCol) * frag.numRegs() + inFrag;
  }
  /// Rows and columns from one warp to the next, and the grid of warps.
  int64_t rowsPerWarp() const { return gridRows * frag.rows; }
  int64_t colsPerWarp() const { return gridCols * frag.cols; }
  int64_t warpGridCols() const { return warpCols; }
  int64_t warpGridRows() const { return warpRows; }
  int64_t stackedWarps() const { return stacked; }

  Coord at(int64_t warp, int64_t lane, int64_t reg) const;
  /// The register that holds `c` in this very warp and lane, if it does.
  std::optional<int64_t> find(int64_t warp, int64_t lane, Coord c) const;

  /// Which rows one thread holds: coordinates of (lane 0, register) differ only
  /// by them. Row slot of a register, 0 .. numRowSlots() - 1.
  int64_t rowSlot(int64_t reg) const;
  int64_t numRowSlots() const;
  /// The same of columns.
  int64_t colSlot(int64_t reg) const;
  int64_t numColSlots() const;
  /// Lane bits that do not move the row: the lanes to reduce a row over.
  std::vector<int64_t> rowReductionLanes() const;
  /// The same of columns.
  std::vector<int64_t> columnReductionLanes() const;

  /// A table of who holds what, for people.
  std::string print() const;

private:
  /// The first element of a warp's part.
  Coord originOf(int64_t warp) const;

  Fragment frag;
  int64_t tileRows, tileCols, warpRows, warpCols, stacked, gridRows, gridCols;
};

/// A tile in shared memory: panels of columns, rows in order within a panel,
/// 16-byte chunks swizzled within a row (FA2GPUAttrs.td, `shared`).
class SharedLayout {
public:
  struct Panel {
    int64_t col;    // first column
    int64_t bytes;  // of a row: 128, 64 or 32
    int64_t offset; // of row 0, from the tile's start
  };
  static constexpr int64_t kChunkBytes = 16;
  /// Tiles start at multiples of this, so that chunks swizzle by address bits.
  static constexpr int64_t kAlignment = 1024;
  /// Vectors, which nothing swizzles, start at multiples of this.
  static constexpr int64_t kVectorAlignment = 32;

  /// With `uniformPanel` bytes, all panels have that width, and the columns are
  /// padded to whole panels: what one tensor map can bring.
  SharedLayout(int64_t rows, int64_t cols, int64_t elementBytes,
               int64_t uniformPanel = 0);
  /// The layout whose columns `parts` warps can split: the plain one where it
  /// can be, else padded to columnsPerPart of each, in the widest panels that
  /// the parts fall into alike. With `uniformPanel` bytes, in such panels.
  static SharedLayout splitBy(int64_t parts, int64_t rows, int64_t cols,
                              int64_t elementBytes, int64_t uniformPanel = 0);
  /// The layout whose rows lie as in memory, beginning anywhere in a chunk: one
  /// panel, not swizzled. `offset` is that of rows which begin at a chunk.
  static SharedLayout ofUnaligned(int64_t rows, int64_t cols,
                                  int64_t elementBytes);

  int64_t rows() const { return tileRows; }
  int64_t elementBytes() const { return elemBytes; }
  /// Columns with padding (a multiple of 32 bytes, or of the uniform panel).
  int64_t paddedCols() const { return padCols; }
  int64_t bytes() const;
  int64_t alignment() const {
    return tileRows == 1 ? kVectorAlignment : kAlignment;
  }
  /// From one tile to the next where several lie in a row.
  int64_t pitch() const;
  const std::vector<Panel> &panels() const { return panelList; }
  const Panel &panelOf(int64_t col) const;
  /// Whether `parts` warps can each read their own run of columns: runs must
  /// lie alike in the panels.
  bool canSplitColumns(int64_t parts) const;
  /// Byte offset of an element.
  int64_t offset(int64_t row, int64_t col) const;
  /// The place of chunk 0 of a row is row-dependent: chunk c is at c ^
  /// xorOf(row).
  static int64_t xorOf(int64_t row, int64_t panelBytes) {
    return row >> xorShift(panelBytes) & xorMask(panelBytes);
  }
  static int64_t xorShift(int64_t panelBytes) {
    return panelBytes == 128 ? 0 : panelBytes == 64 ? 1 : 2;
  }
  static int64_t xorMask(int64_t panelBytes) {
    return panelBytes / kChunkBytes - 1;
  }

  std::string print() const;

private:
  SharedLayout(int64_t rows, int64_t elementBytes)
      : tileRows(rows), elemBytes(elementBytes) {}

  int64_t tileRows, elemBytes, padCols = 0;
  bool swizzled = true;
  std::vector<Panel> panelList;
};

} // namespace fa2::gpu

#endif
