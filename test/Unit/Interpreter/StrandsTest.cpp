//===- StrandsTest.cpp - programs that take turns -------------------------===//

#include "Strands.h"

#include "gtest/gtest.h"

#include <string>

using fa2::interpreter::Strands;

namespace {

TEST(Strands, goOnWhereOthersWait) {
  Strands strands;
  std::string order;
  int filled = 0, read = 0;
  strands.run({[&] { // reads what the other one fills, one ahead
                 for (int i = 0; i < 3; ++i) {
                   EXPECT_TRUE(strands.waitUntil([&] { return filled > i; }));
                   order += 'r';
                   ++read;
                 }
               },
               [&] {
                 for (int i = 0; i < 3; ++i) {
                   EXPECT_TRUE(strands.waitUntil([&] { return read >= i; }));
                   order += 'f';
                   ++filled;
                 }
               }});
  EXPECT_EQ(order, "frfrfr");
}

TEST(Strands, knowThatNobodyCanGoOn) {
  Strands strands;
  int stuck = 0;
  auto never = [&] { stuck += !strands.waitUntil([] { return false; }); };
  strands.run({never, [] {}, never});
  EXPECT_EQ(stuck, 2);
  // One that ends may be what another waits for.
  bool over = false;
  strands.run({[&] { EXPECT_TRUE(strands.waitUntil([&] { return over; })); },
               [&] { over = true; }});
}

TEST(Strands, outsideOfARunNobodyElseGoesOn) {
  Strands strands;
  EXPECT_TRUE(strands.waitUntil([] { return true; }));
  EXPECT_FALSE(strands.waitUntil([] { return false; }));
}

TEST(Strands, countThoseThatHaveNotBegun) {
  // The third makes the second ready alone, and the second the first.
  Strands strands;
  bool first = false, second = false, all = true;
  strands.run({[&] { all &= strands.waitUntil([&] { return first; }); },
               [&] {
                 all &= strands.waitUntil([&] { return second; });
                 first = true;
               },
               [&] { second = true; }});
  EXPECT_TRUE(all);
}

TEST(Strands, runOthersAndWaitForThem) {
  // Two that each run two: what one of them waits for another one's gives.
  Strands strands;
  int ended = 0;
  bool ready = false, came = false;
  auto both = [&](auto one, auto other) {
    return [&, one, other] {
      strands.run({one, other});
      ++ended;
    };
  };
  auto nothing = [] {};
  strands.run(
      {both([&] { came = strands.waitUntil([&] { return ready; }); }, nothing),
       both(nothing, [&] { ready = true; })});
  EXPECT_TRUE(came);
  EXPECT_EQ(ended, 2);
}

} // namespace
