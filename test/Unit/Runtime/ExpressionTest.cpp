//===- ExpressionTest.cpp - the manifest's expressions --------------------===//

#include "Expression.h"
#include "Support.h"

#include <limits>
#include <stdexcept>

using namespace fa2rt;

namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::optional<uint32_t> slots(std::string_view name) {
  const char *names[] = {"a", "b", "q.stride[0]", "device.l2_bytes", "gone"};
  for (uint32_t i = 0; i < 5; ++i)
    if (name == names[i])
      return i;
  return std::nullopt;
}

/// With a = 7, b = -2, q.stride[0] = 4096, device.l2_bytes = kMax.
int64_t eval(std::string_view text) {
  std::vector<std::optional<int64_t>> values = {7, -2, 4096, kMax,
                                                std::nullopt};
  return Expression::parse(text, slots).evaluate(values);
}

template <typename Exception> std::string whyNot(std::string_view text) {
  try {
    eval(text);
  } catch (const Exception &error) {
    return error.what();
  }
  ADD_FAILURE() << text << " was accepted";
  return "";
}

} // namespace

TEST(Expression, Arithmetic) {
  EXPECT_EQ(eval("1 + 2 * 3"), 7);
  EXPECT_EQ(eval("(1 + 2) * 3"), 9);
  EXPECT_EQ(eval("10 - 3 - 2"), 5);
  EXPECT_EQ(eval("-7 / 2"), -3);
  EXPECT_EQ(eval("-7 % 2"), -1);
  EXPECT_EQ(eval("--5"), 5);
  EXPECT_EQ(eval("a*b"), -14);
  EXPECT_EQ(eval("2*-3"), -6);
  EXPECT_EQ(eval(" q.stride[0]*2 "), 8192);
  EXPECT_EQ(eval("q.stride[ 0 ]"), 4096);
  EXPECT_EQ(eval("9223372036854775807"), kMax);
  EXPECT_EQ(eval("-9223372036854775807 - 1"), -kMax - 1);
}

TEST(Expression, ComparisonAndLogic) {
  EXPECT_EQ(eval("a == 7"), 1);
  EXPECT_EQ(eval("a != 7"), 0);
  EXPECT_EQ(eval("a <= 7 && a >= 7"), 1);
  EXPECT_EQ(eval("a < 7 || b > 0"), 0);
  EXPECT_EQ(eval("!a"), 0);
  EXPECT_EQ(eval("!!a"), 1);
  EXPECT_EQ(eval("!0 + 1"), 2);
  EXPECT_EQ(eval("1 + 1 == 2"), 1);
  EXPECT_EQ(eval("5 && 3"), 1);
  EXPECT_EQ(eval("0 || 0 || 4"), 1);
}

TEST(Expression, Functions) {
  EXPECT_EQ(eval("min(a, b)"), -2);
  EXPECT_EQ(eval("max(a, b)"), 7);
  EXPECT_EQ(eval("ceildiv(0, 4)"), 0);
  EXPECT_EQ(eval("ceildiv(1, 4)"), 1);
  EXPECT_EQ(eval("ceildiv(8, 4)"), 2);
  EXPECT_EQ(eval("ceildiv(-7, 4)"), -1);
  EXPECT_EQ(eval("ceildiv(9223372036854775807, 2)"), kMax / 2 + 1);
  EXPECT_EQ(eval("pow2floor(1)"), 1);
  EXPECT_EQ(eval("pow2floor(127)"), 64);
  EXPECT_EQ(eval("pow2floor(128)"), 128);
  EXPECT_EQ(eval("if(a > 0, 3, 1 / 0)"), 3);
  EXPECT_EQ(eval("if(a < 0, 1 / 0, 4)"), 4);
}

TEST(Expression, LogicStopsEarly) {
  EXPECT_EQ(eval("0 && 1 / 0"), 0);
  EXPECT_EQ(eval("1 || gone"), 1);
}

TEST(Expression, FaultsNameTheExpression) {
  for (const char *text :
       {"1 / (a - 7)", "1 % 0", "device.l2_bytes + 1",
        "-9223372036854775807 - 2", "device.l2_bytes * 2",
        "(-9223372036854775807 - 1) / -1", "(-9223372036854775807 - 1) % -1",
        "-(-9223372036854775807 - 1)", "ceildiv(1, 0)", "ceildiv(1, b)",
        "pow2floor(0)", "gone + 1"})
    EXPECT_CONTAINS(whyNot<std::domain_error>(text),
                    std::string("'") + text + "'");
  EXPECT_CONTAINS(whyNot<std::domain_error>("gone"), "left out");
}

TEST(Expression, RefusesWhatIsNotInTheGrammar) {
  EXPECT_CONTAINS(whyNot<std::invalid_argument>(""), "got the end");
  EXPECT_CONTAINS(whyNot<std::invalid_argument>("1 +"), "column 4");
  EXPECT_CONTAINS(whyNot<std::invalid_argument>("c"), "unknown name 'c'");
  EXPECT_CONTAINS(whyNot<std::invalid_argument>("q.stride[1]"),
                  "'q.stride[1]'");
  EXPECT_CONTAINS(whyNot<std::invalid_argument>("sqrt(4)"), "'sqrt'");
  EXPECT_CONTAINS(whyNot<std::invalid_argument>("min(1)"), "','");
  EXPECT_CONTAINS(whyNot<std::invalid_argument>("min(1, 2, 3)"), "2 operands");
  for (const char *text :
       {"1 2", "a b", "(1", "1)", "1 < 2 < 3", "a = 7", "a & b", "0x10", "1.5",
        "q.stride[-1]", "q.stride[b]", "9223372036854775808", "min 1, 2", "@"})
    whyNot<std::invalid_argument>(text);
}

TEST(Expression, HostileInputIsBounded) {
  EXPECT_CONTAINS(whyNot<std::invalid_argument>(std::string(100000, '(')),
                  "nested deeper");
  EXPECT_CONTAINS(whyNot<std::invalid_argument>(std::string(100000, '-')),
                  "nested deeper");
  std::string sum = "1";
  for (int i = 0; i < 100000; ++i)
    sum += "+1";
  EXPECT_CONTAINS(whyNot<std::invalid_argument>(sum), "operations");
}

TEST(Expression, ListsTheNamesItReads) {
  Expression e = Expression::parse("a + a * q.stride[0]", slots);
  ASSERT_EQ(e.names().size(), 2u);
  EXPECT_EQ(e.names()[0].first, "a");
  EXPECT_EQ(e.names()[1].first, "q.stride[0]");
}
