//===- PlacementTest.cpp --------------------------------------------------===//

#include "fa2/Schedule/Placement.h"

#include "gtest/gtest.h"

using namespace fa2;

static Piece piece(int64_t bytes, int64_t first, int64_t last,
                   int64_t alignment = 16) {
  Piece p;
  p.bytes = bytes;
  p.alignment = alignment;
  p.first = first;
  p.last = last;
  return p;
}

namespace {

// The output, the largest, begins at 0 when queries and keys are dead; what
// lives with it stands behind it.
TEST(Placement, LivesThatDoNotMeetShareBytes) {
  std::vector<Piece> pieces{piece(96, 0, 1), piece(32, 1, 1), piece(100, 2, 3),
                            piece(8, 3, 4)};
  EXPECT_EQ(placeByLife(pieces), 128);
  EXPECT_EQ(pieces[0].offset, 0);
  EXPECT_EQ(pieces[1].offset, 96);
  EXPECT_EQ(pieces[2].offset, 0);
  EXPECT_EQ(pieces[3].offset, 112); // aligned
  EXPECT_TRUE(pieces[2].sharesBytes(pieces[1]));
  EXPECT_FALSE(pieces[2].sharesBytes(pieces[3]));
}

// A life that touches another's last moment meets it.
TEST(Placement, LivesMeetAtAMoment) {
  std::vector<Piece> pieces{piece(64, 0, 2), piece(64, 2, 3)};
  EXPECT_EQ(placeByLife(pieces), 128);
}

// In their order, whenever they live; mbarriers behind all bytes, a queue's
// numbers behind its own.
TEST(Placement, SideBySide) {
  std::vector<Piece> pieces{piece(100, 0, 0, 128), piece(256, 1, 1, 128),
                            piece(16, 0, 0)};
  pieces[1].barriers = 32;
  pieces[2].barriers = 48;
  pieces[2].isQueue = true;
  EXPECT_EQ(placeSideBySide(pieces), 384 + 32 + 48 + 16);
  EXPECT_EQ(pieces[1].offset, 128);
  EXPECT_EQ(pieces[1].barriersOffset, 384);
  EXPECT_EQ(pieces[2].barriersOffset, 416);
  EXPECT_EQ(pieces[2].offset, 464);
}

} // namespace
