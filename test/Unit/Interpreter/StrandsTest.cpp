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

} // namespace
