//===- DispatchTest.cpp - when the blocks of a launch end -----------------===//

#include "fa2/Schedule/Dispatch.h"

#include "gtest/gtest.h"

using namespace fa2;

namespace {

// Two multiprocessors that hold one block each: the third starts where the
// shorter of the first two ended.
TEST(Dispatch, TheNextStartsWhereOneEnded) {
  BlockRates rates{2, 1, /*stepAlone=*/10, /*step=*/10};
  EXPECT_DOUBLE_EQ(clocksOfBlocks({4, 1, 2}, rates), 40);
  EXPECT_DOUBLE_EQ(clocksOfBlocks({1, 1, 4}, rates), 50);
  EXPECT_DOUBLE_EQ(clocksOfBlocks({4, 1, 1}, rates), 40);
}

// Each has a block before one has two.
TEST(Dispatch, BlocksSpreadFirst) {
  BlockRates rates{2, 2, /*stepAlone=*/10, /*step=*/10};
  EXPECT_DOUBLE_EQ(clocksOfBlocks({3, 3}, rates), 30);
}

// Two that share a multiprocessor take twice a step each, until one ends; a
// block by itself is no faster than its latencies.
TEST(Dispatch, BlocksShare) {
  BlockRates rates{1, 2, /*stepAlone=*/15, /*step=*/10};
  EXPECT_DOUBLE_EQ(clocksOfBlocks({2, 2}, rates), 40);
  EXPECT_DOUBLE_EQ(clocksOfBlocks({2, 4}, rates), 40 + 30);
}

TEST(Dispatch, PersistentBlocksTakeTurns) {
  BlockRates rates{2, 1, /*stepAlone=*/1, /*step=*/1};
  EXPECT_DOUBLE_EQ(clocksOfPersistent({4, 3, 2, 1}, rates, false), 6);
  EXPECT_DOUBLE_EQ(clocksOfPersistent({4, 3, 2, 1}, rates, true), 5);
  EXPECT_DOUBLE_EQ(clocksOfPersistent({4}, rates, true), 4);
}

TEST(Dispatch, NoBlocksTakeNoTime) {
  EXPECT_DOUBLE_EQ(clocksOfBlocks({}, {}), 0);
  EXPECT_DOUBLE_EQ(clocksOfPersistent({}, {}, true), 0);
}

} // namespace
