//===- ExtrasTest.cpp - what a program reads, in memory -------------------===//

#include "Extras.h"

#include <gtest/gtest.h>

using namespace fa2run;

namespace {

/// Of tensors too large to be drawn whole for times the host has a beginning.
TEST(Extras, BeginningsHaveRoomForTheGapsBetweenRows) {
  Kernel::ExtraRule rule;
  rule.name = "bias";
  rule.dtype = FA2RT_BF16;
  rule.shape = {"batch", "heads", "seqlen_q", "seqlen_k"};
  rule.summed.assign(4, false);
  rule.broadcast = rule.hasGradient = rule.wholeGradient = true;
  Configuration c;
  c.heads = 2;
  c.seqlenQ = 2048;
  c.seqlenK = 2047;
  Extra bias(rule, c, {}, /*stream=*/1, ExtraStrides::Packed);
  size_t drawn = bias.operand().elements.size();
  ASSERT_LT(drawn, size_t(c.heads * c.seqlenQ * c.seqlenK));
  EXPECT_EQ(bias.heldBytes(), 2 * drawn);

  // Rows of a gradient that tiles of 16 bits are stored to begin at multiples
  // of 16 bytes.
  for (uint64_t stream = 1; stream <= 8; ++stream) {
    Extra gradient = Extra::gradientOf(bias, stream, ExtraStrides::Packed);
    size_t row = (drawn - 1) / 2047, column = (drawn - 1) % 2047;
    EXPECT_GE(gradient.heldBytes(), 2 * (row * 2048 + column + 1));
    EXPECT_LT(gradient.heldBytes(), gradient.bytes());
  }
}

} // namespace
