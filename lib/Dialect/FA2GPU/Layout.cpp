//===- Layout.cpp - where the elements of a tile are ----------------------===//

#include "fa2/Dialect/FA2GPU/Layout.h"

#include <cassert>
#include <sstream>

namespace fa2::gpu {

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

Coord Fragment::at(int64_t lane, int64_t reg) const {
  Coord c;
  for (size_t i = 0; i < laneBits.size(); ++i)
    if (lane >> i & 1)
      c = c + laneBits[i];
  for (size_t i = 0; i < regBits.size(); ++i)
    if (reg >> i & 1)
      c = c + regBits[i];
  return c;
}

Fragment Fragment::transposed() const {
  Fragment t{cols, rows, {}, {}};
  for (Coord c : laneBits)
    t.laneBits.push_back({c.col, c.row});
  for (Coord c : regBits)
    t.regBits.push_back({c.col, c.row});
  return t;
}

int64_t columnsPerPart(int64_t cols, int64_t parts, int64_t panelCols) {
  if (parts == 1)
    return cols;
  int64_t unit = 16, part = ceilDiv(cols, parts);
  while (unit < part && unit < panelCols)
    unit *= 2;
  return ceilDiv(part, unit) * unit;
}

TileLayout::TileLayout(Fragment fragment, int64_t rows, int64_t cols,
                       int64_t warpRows, int64_t warpCols, int64_t stacked,
                       int64_t panelCols)
    : frag(std::move(fragment)), tileRows(rows), tileCols(cols),
      warpRows(warpRows), warpCols(warpCols), stacked(stacked),
      gridRows(ceilDiv(ceilDiv(rows, warpRows), frag.rows)),
      gridCols(ceilDiv(columnsPerPart(cols, warpCols, panelCols), frag.cols)) {}

Coord TileLayout::originOf(int64_t warp) const {
  int64_t stack = warp / stacked;
  int64_t row = stack / warpCols * stacked + warp % stacked;
  // Warps beyond the grid have copies of what its own have.
  return {row % warpRows * rowsPerWarp(), stack % warpCols * colsPerWarp()};
}

Coord TileLayout::at(int64_t warp, int64_t lane, int64_t reg) const {
  int64_t f = reg / frag.numRegs();
  Coord c = frag.at(lane, reg % frag.numRegs());
  c = c + Coord{f / gridCols * frag.rows, f % gridCols * frag.cols};
  return c + originOf(warp);
}

std::optional<int64_t> TileLayout::find(int64_t warp, int64_t lane,
                                        Coord c) const {
  Coord origin = originOf(warp);
  int64_t row = c.row - origin.row, col = c.col - origin.col;
  if (row < 0 || col < 0 || row >= rowsPerWarp() || col >= colsPerWarp())
    return std::nullopt;
  Coord inFragment{row % frag.rows, col % frag.cols};
  for (int64_t r = 0; r < frag.numRegs(); ++r)
    if (frag.at(lane, r) == inFragment)
      return reg(row / frag.rows, col / frag.cols, r);
  return std::nullopt;
}

int64_t TileLayout::numRowSlots() const {
  int64_t n = gridRows;
  for (Coord c : frag.regBits)
    n *= c.row != 0 ? 2 : 1;
  return n;
}

int64_t TileLayout::rowSlot(int64_t reg) const {
  int64_t slot = reg / frag.numRegs() / gridCols;
  for (size_t i = 0; i < frag.regBits.size(); ++i)
    if (frag.regBits[i].row != 0)
      slot = slot * 2 + (reg >> i & 1);
  return slot;
}

int64_t TileLayout::numColSlots() const {
  int64_t n = gridCols;
  for (Coord c : frag.regBits)
    n *= c.col != 0 ? 2 : 1;
  return n;
}

int64_t TileLayout::colSlot(int64_t reg) const {
  int64_t slot = reg / frag.numRegs() % gridCols;
  for (size_t i = 0; i < frag.regBits.size(); ++i)
    if (frag.regBits[i].col != 0)
      slot = slot * 2 + (reg >> i & 1);
  return slot;
}

std::vector<int64_t> TileLayout::rowReductionLanes() const {
  std::vector<int64_t> masks;
  for (size_t i = 0; i < frag.laneBits.size(); ++i)
    if (frag.laneBits[i].row == 0)
      masks.push_back(int64_t(1) << i);
  return masks;
}

std::vector<int64_t> TileLayout::columnReductionLanes() const {
  std::vector<int64_t> masks;
  for (size_t i = 0; i < frag.laneBits.size(); ++i)
    if (frag.laneBits[i].col == 0)
      masks.push_back(int64_t(1) << i);
  return masks;
}

std::string TileLayout::print() const {
  std::ostringstream os;
  os << tileRows << " x " << tileCols << " over " << warpRows << " x "
     << warpCols << " warps, " << numRegs() << " elements a lane\n";
  for (int64_t r = 0; r < numRegs(); ++r) {
    os << "  register " << r << ":";
    for (int64_t lane : {0, 1, 2, 4, 8, 16}) {
      Coord c = at(0, lane, r);
      os << "  lane " << lane << " (" << c.row << "," << c.col << ")";
    }
    os << "\n";
  }
  return os.str();
}

SharedLayout::SharedLayout(int64_t rows, int64_t cols, int64_t elementBytes,
                           int64_t uniformPanel)
    : tileRows(rows), elemBytes(elementBytes) {
  int64_t unit = uniformPanel ? uniformPanel : 32;
  padCols = ceilDiv(cols * elementBytes, unit) * unit / elementBytes;
  int64_t col = 0, offset = 0;
  for (int64_t bytes : {128, 64, 32})
    while ((padCols - col) * elemBytes >= bytes &&
           (!uniformPanel || bytes == uniformPanel)) {
      panelList.push_back({col, bytes, offset});
      col += bytes / elemBytes;
      offset += tileRows * bytes;
    }
  assert(col == padCols && "32 bytes divide every padded row");
}

SharedLayout SharedLayout::splitBy(int64_t parts, int64_t rows, int64_t cols,
                                   int64_t elementBytes, int64_t uniformPanel) {
  if (uniformPanel) {
    int64_t each = columnsPerPart(cols, parts, uniformPanel / elementBytes);
    return SharedLayout(rows, parts * each, elementBytes, uniformPanel);
  }
  SharedLayout plain(rows, cols, elementBytes);
  if (plain.canSplitColumns(parts))
    return plain;
  int64_t padded = parts * columnsPerPart(cols, parts);
  for (int64_t panel : {128, 64}) {
    SharedLayout s(rows, padded, elementBytes, panel);
    if (s.padCols == padded && s.canSplitColumns(parts))
      return s;
  }
  return SharedLayout(rows, padded, elementBytes, 32);
}

SharedLayout SharedLayout::ofUnaligned(int64_t rows, int64_t cols,
                                       int64_t elementBytes) {
  assert(cols * elementBytes % 32 == 0 && "rows of tiles are whole sectors");
  SharedLayout s(rows, elementBytes);
  int64_t bytes = cols * elementBytes + kChunkBytes;
  s.padCols = bytes / elementBytes;
  s.swizzled = false;
  s.panelList.push_back({0, bytes, 0});
  return s;
}

int64_t SharedLayout::bytes() const {
  return panelList.back().offset + tileRows * panelList.back().bytes;
}

int64_t SharedLayout::pitch() const {
  return ceilDiv(bytes(), alignment()) * alignment();
}

const SharedLayout::Panel &SharedLayout::panelOf(int64_t col) const {
  size_t i = 0;
  while (i + 1 < panelList.size() && panelList[i + 1].col <= col)
    ++i;
  return panelList[i];
}

bool SharedLayout::canSplitColumns(int64_t parts) const {
  if (parts == 1)
    return true;
  int64_t cols = padCols / parts, panel = panelList.front().bytes / elemBytes;
  return panelList.front().bytes == panelList.back().bytes &&
         padCols % parts == 0 && cols % 16 == 0 &&
         (cols % panel == 0 || panel % cols == 0);
}

int64_t SharedLayout::offset(int64_t row, int64_t col) const {
  const Panel &p = panelOf(col);
  int64_t byte = (col - p.col) * elemBytes;
  int64_t chunk = (byte / kChunkBytes) ^ (swizzled ? xorOf(row, p.bytes) : 0);
  return p.offset + row * p.bytes + chunk * kChunkBytes + byte % kChunkBytes;
}

std::string SharedLayout::print() const {
  std::ostringstream os;
  os << tileRows << " x " << padCols << ", " << bytes() << " bytes\n";
  for (const Panel &p : panelList)
    os << "  columns " << p.col << " to " << p.col + p.bytes / elemBytes - 1
       << ": " << p.bytes << "-byte rows at byte " << p.offset << "\n";
  return os.str();
}

} // namespace fa2::gpu
