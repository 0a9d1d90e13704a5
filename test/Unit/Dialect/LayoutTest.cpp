//===- LayoutTest.cpp - fragments, tiles and shared memory ----------------===//

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <set>

using namespace fa2::gpu;

namespace {

struct LayoutTest : testing::Test {
  LayoutTest() { context.loadDialect<fa2::FA2Dialect, FA2GPUDialect>(); }
  MmaSyncAttr family() { return MmaSyncAttr::get(&context); }
  WgmmaAttr groupFamily() { return WgmmaAttr::get(&context); }
  mlir::MLIRContext context;
};

using Point = std::pair<int64_t, int64_t>;

void expectBijective(const Fragment &f) {
  std::set<Point> seen;
  for (int64_t lane = 0; lane < kWarpLanes; ++lane)
    for (int64_t reg = 0; reg < f.numRegs(); ++reg) {
      Coord c = f.at(lane, reg);
      EXPECT_TRUE(c.row >= 0 && c.row < f.rows && c.col >= 0 && c.col < f.cols)
          << "lane " << lane << " register " << reg;
      EXPECT_TRUE(seen.insert({c.row, c.col}).second)
          << "(" << c.row << ", " << c.col << ") is held twice";
    }
  EXPECT_EQ(int64_t(seen.size()), f.rows * f.cols);
}

TEST_F(LayoutTest, FragmentsHoldEveryElementOnce) {
  for (const Fragment &f :
       {family().accumulator(), family().operandA(), family().operandB()}) {
    expectBijective(f);
    expectBijective(f.transposed());
  }
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", for
// every lane: groupID = lane >> 2, threadID_in_group = lane % 4.
TEST_F(LayoutTest, AccumulatorIsThatOfThePtxManual) {
  Fragment c = family().accumulator();
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t i = 0; i < 4; ++i) {
      int64_t row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
      int64_t col = (lane % 4) * 2 + (i & 1);
      EXPECT_EQ(c.at(lane, i), (Coord{row, col})) << lane << " " << i;
    }
}

TEST_F(LayoutTest, OperandAIsThatOfThePtxManual) {
  Fragment a = family().operandA();
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t i = 0; i < 8; ++i) {
      bool upper = i < 2 || (i >= 4 && i < 6);
      int64_t row = upper ? lane >> 2 : (lane >> 2) + 8;
      int64_t col = (lane % 4) * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      EXPECT_EQ(a.at(lane, i), (Coord{row, col})) << lane << " " << i;
    }
}

TEST_F(LayoutTest, OperandBIsThatOfThePtxManual) {
  Fragment b = family().operandB();
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t i = 0; i < 4; ++i) {
      int64_t row = (lane % 4) * 2 + (i & 1) + (i >= 2 ? 8 : 0);
      EXPECT_EQ(b.at(lane, i), (Coord{row, lane >> 2})) << lane << " " << i;
    }
}

// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", D: of N / 2
// elements a thread, d[i] is at row (i / 2 even ? 0 : 8) + lane / 4 + 16 (warp
// % 4), column (i / 4) 8 + (lane % 4) 2 + i % 2.
TEST_F(LayoutTest, WarpgroupAccumulatorIsThatOfThePtxManual) {
  for (int64_t groups : {1, 3})
    for (int64_t n : {8, 80, 256}) {
      TileLayout d(groupFamily().accumulator(), 64 * groups, n, 4 * groups, 1);
      ASSERT_EQ(d.numRegs(), n / 2);
      for (int64_t warp = 0; warp < 4 * groups; ++warp)
        for (int64_t lane = 0; lane < 32; ++lane)
          for (int64_t i = 0; i < n / 2; ++i) {
            int64_t row = warp / 4 * 64 + warp % 4 * 16 + lane / 4 +
                          (i / 2 % 2 == 0 ? 0 : 8);
            int64_t col = i / 4 * 8 + lane % 4 * 2 + i % 2;
            ASSERT_EQ(d.at(warp, lane, i), (Coord{row, col}))
                << warp << " " << lane << " " << i;
          }
    }
}

// The same section, A in registers: 64 x 16 elements, eight a thread, in the
// order of the instruction's four registers of two.
TEST_F(LayoutTest, WarpgroupOperandAIsThatOfThePtxManual) {
  TileLayout a(groupFamily().operandA(), 64, 32, 4, 1);
  ASSERT_EQ(a.numRegs(), 16);
  for (int64_t warp = 0; warp < 4; ++warp)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t step = 0; step < 2; ++step)
        for (int64_t i = 0; i < 8; ++i) {
          bool upper = i < 2 || (i >= 4 && i < 6);
          int64_t row = warp * 16 + lane / 4 + (upper ? 0 : 8);
          int64_t col = step * 16 + (i < 4 ? 0 : 8) + lane % 4 * 2 + i % 2;
          ASSERT_EQ(a.at(warp, lane, step * 8 + i), (Coord{row, col}))
              << warp << " " << lane << " " << i;
        }
  EXPECT_EQ(groupFamily().warpsPerInstruction(), 4);
}

// Two warpgroups side by side, each four warps down.
TEST_F(LayoutTest, WarpsOfAGroupLieOneBelowTheOther) {
  TileLayout d(groupFamily().accumulator(), 64, 64, 4, 2, /*stacked=*/4);
  for (int64_t warp = 0; warp < 8; ++warp)
    EXPECT_EQ(d.at(warp, 0, 0), (Coord{warp % 4 * 16, warp / 4 * 32}));
  TileLayout both(groupFamily().accumulator(), 128, 64, 8, 2, /*stacked=*/4);
  EXPECT_EQ(both.at(5, 0, 0), (Coord{16, 32}));
  EXPECT_EQ(both.at(8, 0, 0), (Coord{64, 0}));
}

TEST_F(LayoutTest, TilesHoldEveryElementOnce) {
  for (auto [rows, cols, down, across] : {std::tuple{128, 64, 4, 1},
                                          {64, 128, 4, 1},
                                          {64, 64, 1, 4},
                                          {128, 64, 2, 2},
                                          {16, 8, 1, 1},
                                          {64, 40, 4, 1}}) {
    TileLayout t(family().accumulator(), rows, cols, down, across);
    std::set<Point> seen;
    for (int64_t w = 0; w < t.warps(); ++w)
      for (int64_t lane = 0; lane < 32; ++lane)
        for (int64_t r = 0; r < t.numRegs(); ++r) {
          Coord c = t.at(w, lane, r);
          EXPECT_TRUE(seen.insert({c.row, c.col}).second);
          EXPECT_EQ(t.find(w, lane, c), r);
        }
    EXPECT_EQ(int64_t(seen.size()), int64_t(rows) * cols);
    for (Point p : seen)
      EXPECT_TRUE(p.first < rows && p.second < cols);
  }
}

TEST_F(LayoutTest, TilesRoundUpToFragments) {
  // 40 columns of 16-wide A fragments: 48, the last 8 of them padding.
  TileLayout t(family().operandA(), 64, 40, 4, 1);
  EXPECT_EQ(t.fragCols(), 3);
  EXPECT_EQ(t.colsPerWarp(), 48);
  EXPECT_EQ(t.numRegs(), 3 * 8);
}

TEST_F(LayoutTest, WarpsSplitRowsFirst) {
  TileLayout t(family().accumulator(), 128, 64, 2, 2);
  EXPECT_EQ(t.at(0, 0, 0), (Coord{0, 0}));
  EXPECT_EQ(t.at(1, 0, 0), (Coord{0, 32}));
  EXPECT_EQ(t.at(2, 0, 0), (Coord{64, 0}));
  EXPECT_EQ(t.find(0, 0, {64, 0}), std::nullopt);
}

// P's accumulator feeds the second product as operand A without moving between
// lanes.
TEST_F(LayoutTest, AccumulatorPairsAreOperandA) {
  TileLayout acc(family().accumulator(), 64, 64, 4, 1);
  TileLayout op(family().operandA(), 64, 64, 4, 1);
  for (int64_t w = 0; w < 4; ++w)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t r = 0; r < op.numRegs(); ++r)
        EXPECT_TRUE(acc.find(w, lane, op.at(w, lane, r)).has_value());
}

TEST_F(LayoutTest, RowSlotsAndReductionLanes) {
  TileLayout t(family().accumulator(), 128, 64, 4, 1);
  EXPECT_EQ(t.numRowSlots(), 4); // 32 rows a warp, eight lanes down
  EXPECT_EQ(t.rowReductionLanes(), (std::vector<int64_t>{1, 2}));
  for (int64_t lane : {0, 5, 31})
    for (int64_t a = 0; a < t.numRegs(); ++a)
      for (int64_t b = 0; b < t.numRegs(); ++b)
        EXPECT_EQ(t.rowSlot(a) == t.rowSlot(b),
                  t.at(0, lane, a).row == t.at(0, lane, b).row);
  for (int64_t r = 0; r < t.numRegs(); ++r) {
    EXPECT_TRUE(t.rowSlot(r) >= 0 && t.rowSlot(r) < t.numRowSlots());
    for (int64_t lane : t.rowReductionLanes())
      EXPECT_EQ(t.at(0, lane, r).row, t.at(0, 0, r).row);
  }
}

// Columns, and the bytes of a uniform panel or 0.
class SharedTest : public testing::TestWithParam<std::tuple<int64_t, int64_t>> {
protected:
  SharedLayout s{64, std::get<0>(GetParam()), 2, std::get<1>(GetParam())};
};

TEST_P(SharedTest, EveryElementHasItsOwnBytes) {
  std::set<int64_t> seen;
  for (int64_t row = 0; row < 64; ++row)
    for (int64_t col = 0; col < s.paddedCols(); ++col) {
      int64_t at = s.offset(row, col);
      EXPECT_TRUE(at >= 0 && at + 2 <= s.bytes() && at % 2 == 0);
      EXPECT_TRUE(seen.insert(at).second);
    }
  EXPECT_EQ(int64_t(seen.size()) * 2, s.bytes());
}

// A 16-byte chunk stays whole and aligned: cp.async and ldmatrix move chunks.
TEST_P(SharedTest, ChunksAreWhole) {
  for (int64_t row = 0; row < 64; ++row)
    for (int64_t col = 0; col < s.paddedCols(); col += 8) {
      EXPECT_EQ(s.offset(row, col) % 16, 0);
      for (int64_t i = 1; i < 8; ++i)
        EXPECT_EQ(s.offset(row, col + i), s.offset(row, col) + 2 * i);
    }
}

// ldmatrix reads one chunk of eight consecutive rows: 32 banks of 4 bytes are
// eight groups of 16 bytes, each of which must be hit once.
TEST_P(SharedTest, EightRowsHitEightBankGroups) {
  for (int64_t row = 0; row < 64; row += 8)
    for (int64_t col = 0; col < s.paddedCols(); col += 8) {
      std::set<int64_t> groups;
      for (int64_t r = 0; r < 8; ++r)
        groups.insert(s.offset(row + r, col) / 16 % 8);
      EXPECT_EQ(groups.size(), 8u) << "rows from " << row << ", column " << col;
    }
}

INSTANTIATE_TEST_SUITE_P(
    HeadDims, SharedTest,
    testing::Combine(testing::Values(8, 16, 24, 32, 40, 64, 72, 80, 96, 112,
                                     128, 136, 160, 192, 200, 256),
                     testing::Values(0, 128)));

// Tensor maps swizzle by address bits (PTX ISA, "Swizzling modes"): in a span
// of n bytes, bits 4.. of the address are xored with bits 7.. of it.
TEST(SharedLayout, SwizzleIsThatOfTensorMaps) {
  for (auto [cols, mask] : {std::pair{64, 7}, {32, 3}, {16, 1}}) {
    SharedLayout s(32, cols, 2);
    for (int64_t row = 0; row < 32; ++row)
      for (int64_t col = 0; col < cols; ++col) {
        int64_t plain = row * cols * 2 + col * 2;
        EXPECT_EQ(s.offset(row, col), plain ^ ((plain >> 7 & mask) << 4));
      }
  }
}

TEST(SharedLayout, PanelsNarrowToFit) {
  SharedLayout s(64, 104, 2); // 208 bytes: 128 + 64, and 16 padded to 32
  ASSERT_EQ(s.panels().size(), 3u);
  EXPECT_EQ(s.paddedCols(), 112);
  EXPECT_EQ(s.panelOf(63).bytes, 128);
  EXPECT_EQ(s.panelOf(64).bytes, 64);
  EXPECT_EQ(s.panelOf(96).bytes, 32);
}

// One tensor map brings boxes of 128 bytes; what is past the columns is zeros.
TEST(SharedLayout, UniformPanelsPadTheColumns) {
  for (auto [cols, panels] :
       {std::pair{8, 1}, {64, 1}, {72, 2}, {160, 3}, {256, 4}}) {
    SharedLayout s(80, cols, 2, 128);
    ASSERT_EQ(int(s.panels().size()), panels) << cols;
    EXPECT_EQ(s.paddedCols(), 64 * panels);
    EXPECT_EQ(s.bytes(), 80 * 128 * panels);
    for (int p = 0; p < panels; ++p) {
      EXPECT_EQ(s.panels()[p].col, 64 * p);
      EXPECT_EQ(s.panels()[p].bytes, 128);
      EXPECT_EQ(s.panels()[p].offset, 80 * 128 * p);
    }
  }
}

// Whatever the warps, their parts of the columns lie alike in the panels and
// are those that the accumulator's layout gives them.
TEST_F(LayoutTest, WarpsSplitAnyColumns) {
  for (int64_t cols = 8; cols <= 256; cols += 8)
    for (int64_t parts : {1, 2, 3, 4, 8}) {
      SharedLayout s = SharedLayout::splitBy(parts, 64, cols, 2);
      SharedLayout plain(64, cols, 2);
      EXPECT_TRUE(s.canSplitColumns(parts)) << cols << " " << parts;
      EXPECT_GE(s.paddedCols(), cols);
      if (plain.canSplitColumns(parts)) {
        EXPECT_EQ(s.print(), plain.print());
      }
      if (parts == 1)
        continue;
      TileLayout acc(family().accumulator(), 64, cols, 1, parts);
      EXPECT_EQ(acc.colsPerWarp() * parts, s.paddedCols());
      EXPECT_EQ(acc.colsPerWarp(), columnsPerPart(cols, parts));
    }
  // 168 over four warps: 48 each, in panels of 16 columns.
  SharedLayout s = SharedLayout::splitBy(4, 64, 168, 2);
  EXPECT_EQ(s.paddedCols(), 192);
  EXPECT_EQ(s.panels().size(), 12u);
}

// Warpgroups' parts begin alike in panels of 64 columns: a half, a quarter or
// whole ones.
TEST_F(LayoutTest, WarpgroupsSplitWholePanels) {
  for (auto [cols, part] : {std::pair{32, 16},
                            {64, 32},
                            {80, 64},
                            {128, 64},
                            {136, 128},
                            {160, 128},
                            {192, 128},
                            {256, 128}}) {
    EXPECT_EQ(columnsPerPart(cols, 2, 64), part) << cols;
    SharedLayout s = SharedLayout::splitBy(2, 64, cols, 2, 128);
    EXPECT_EQ(s.paddedCols(), std::max(64, 2 * part)) << cols;
    EXPECT_EQ(s.panels().back().bytes, 128);
    TileLayout acc(family().accumulator(), 64, cols, 4, 2, 4, 64);
    EXPECT_EQ(acc.colsPerWarp(), part);
    EXPECT_EQ(acc.at(4, 0, 0), (Coord{0, part}));
  }
  EXPECT_EQ(columnsPerPart(200, 1, 64), 200);
}

TEST(SharedLayout, UnalignedRowsHaveAChunkMoreAndBanksOfTheirOwn) {
  for (int64_t cols : {48, 64, 80, 96, 128}) {
    SharedLayout s = SharedLayout::ofUnaligned(32, cols, 2);
    EXPECT_EQ(s.bytes(), 32 * (cols * 2 + SharedLayout::kChunkBytes)) << cols;
    std::set<int64_t> groups;
    for (int64_t row = 0; row < 8; ++row) {
      EXPECT_EQ(s.offset(row, cols - 1) - s.offset(row, 0), cols * 2 - 2);
      EXPECT_LE(s.offset(row, cols - 1) + 7 * 2 + 2, s.offset(row + 1, 0))
          << "a row that begins at a chunk's last element";
      groups.insert(s.offset(row, 0) / SharedLayout::kChunkBytes % 8);
    }
    EXPECT_EQ(groups.size(), 8u) << cols;
  }
}

TEST(SharedLayout, Prints) {
  EXPECT_EQ(SharedLayout(64, 80, 2).print(),
            "64 x 80, 10240 bytes\n"
            "  columns 0 to 63: 128-byte rows at byte 0\n"
            "  columns 64 to 79: 32-byte rows at byte 8192\n");
}

TEST_F(LayoutTest, TilesPrint) {
  std::string text = TileLayout(family().accumulator(), 16, 8, 1, 1).print();
  EXPECT_NE(text.find("16 x 8 over 1 x 1 warps, 4 elements a lane"),
            std::string::npos);
  EXPECT_NE(text.find("register 2:  lane 0 (8,0)  lane 1 (8,2)"),
            std::string::npos);
}

} // namespace
