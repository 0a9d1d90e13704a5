//===- TableTest.cpp - schedules of problems that were not measured -------===//

#include "Table.h"
#include "FewTiles.h"
#include "Shipped.h"

#include "fa2/Dialect/FA2/Guard.h"
#include "fa2/Schedule/Space.h"
#include "fa2/Target/Target.h"

#include "gtest/gtest.h"

using namespace fa2;

namespace {
const Target &target(llvm::StringRef name) {
  std::string error;
  return *lookupTarget(name, error);
}

TEST(Table, TheShippedOneIsUnderstood) {
  EXPECT_EQ(tableError(kShippedTables), "");
}

TEST(Table, WhatIsWrongIsNamed) {
  auto error = [](llvm::StringRef line) {
    return tableError(R"({"fa2_tables": 1, "fields": [], "variants": [],
                          "weights": [], "lines": [)" +
                      line.str() + "]}");
  };
  EXPECT_EQ(error(R"({"family": "sm_80", "pass": "forward"})"), "");
  EXPECT_NE(error(R"({"family": "sm_81", "pass": "forward"})").find("sm_81"),
            std::string::npos);
  EXPECT_EQ(error(R"({"family": "sm_80", "pass": "both"})"),
            "where 1: expected pass to be forward, backward, dq or "
            "deterministic, got 'both'");
  EXPECT_EQ(error(R"({"family": "sm_80", "pass": "forward",
                      "when": "dims <= 64"})"),
            "where dims <= 64: expression 'dims <= 64': unknown name 'dims' at "
            "column 1");
  EXPECT_NE(error(R"({"family": "sm_80", "pass": "forward",
                      "also": [{"schedule": "block_q=17"}]})")
                .find("block_q"),
            std::string::npos);
  EXPECT_EQ(error(R"({"family": "sm_80", "pass": "forward", "if": "1"})"),
            "lines 1: unknown member 'if'");
  EXPECT_EQ(error("3"), "lines 1: expected an object");
  EXPECT_EQ(tableError("{}"), "expected an object with fa2_tables = 1");
}

// Conditions may have those before them by name.
TEST(Table, ConditionsHaveNames) {
  auto error = [](llvm::StringRef conditions, llvm::StringRef when) {
    return tableError(R"({"fa2_tables": 1, "conditions": )" + conditions.str() +
                      R"(, "fields": [], "variants": [], "weights": [],
                         "lines": [{"family": "sm_80", "pass": "forward",
                                    "when": ")" +
                      when.str() + "\"}]}");
  };
  constexpr const char *two = R"([{"name": "plain", "when": "!program"},
                                  {"name": "wide", "when": "plain && dim > 8"}])";
  EXPECT_EQ(error(two, "wide && !masked"), "");
  EXPECT_EQ(error(two, "narrow"),
            "where narrow: expression 'narrow': unknown name 'narrow' at "
            "column 1");
  EXPECT_EQ(error(R"([{"name": "wide", "when": "plain"},
                      {"name": "plain", "when": "!program"}])",
                  "wide"),
            "condition 'wide': expression 'plain': unknown name 'plain' at "
            "column 1");
  EXPECT_EQ(error(R"([{"name": "masked", "when": "1"}])", "masked"),
            "condition 'masked': expected a name that no number has");
  EXPECT_EQ(error(R"([{"name": "plain"}])", "1"),
            "expected conditions to be objects with name and when");
  EXPECT_EQ(error("3", "1"), "expected an array of conditions");
}

// The first line whose condition holds, slack as the type allows.
TEST(Table, LinesAreForWhatAProblemNeeds) {
  Problem p{64, 64};
  const Target &t = target("sm_90a");
  Schedule plain = tableSchedules(t, p).front();
  EXPECT_EQ(plain.speculateMax, 15);
  p.maxSlack = 60;
  EXPECT_EQ(tableSchedules(t, p).front().speculateMax, 60);
  ASSERT_EQ(p.setNeeds("program,tile_reads=1"), "");
  EXPECT_EQ(plain.slotsReads, 0);
  EXPECT_GT(tableSchedules(t, p).front().slotsReads, 0);
  // Of a family's later targets too.
  p = {64, 64};
  EXPECT_EQ(fieldsText(tableSchedules(target("sm_120"), p).front()),
            fieldsText(tableSchedules(target("sm_80"), p).front()));
  p = {256, 256};
  for (llvm::StringRef name : {"sm_80", "sm_90a"})
    EXPECT_GT(tableGradQSchedule(target(name), p).blockQ, 0);
}

TEST(Table, NeedsAreText) {
  Problem p{64, 64};
  EXPECT_EQ(p.needs(), "");
  p.program = p.slope = true;
  p.columnVectors = 2;
  EXPECT_EQ(p.needs(), "program,slope,column_vectors=2");
  Problem q{64, 64};
  q.dropout = true;
  EXPECT_EQ(q.setNeeds(p.needs()), "");
  EXPECT_EQ(q.needs(), p.needs());
  EXPECT_EQ(q.number("column_vectors"), 2);
  EXPECT_EQ(q.number("dim"), 64);
  EXPECT_EQ(q.number("block_q"), std::nullopt);
  EXPECT_EQ(q.setNeeds("slopes"), "unknown need 'slopes'");
  EXPECT_EQ(q.setNeeds("slope=1"),
            "expected the need slope to have no value, got 'slope=1'");
  EXPECT_EQ(q.setNeeds("tile_reads=0"),
            "expected the need tile_reads to have "
            "a positive number, got 'tile_reads=0'");
}

TEST(Table, ConditionsHaveValues) {
  std::string error;
  auto value = [&](llvm::StringRef text) {
    error.clear();
    return evaluate(
        text,
        [](llvm::StringRef name) -> std::optional<int64_t> {
          if (name == "a")
            return 6;
          return name == "rings.reads" ? std::optional<int64_t>(0)
                                       : std::nullopt;
        },
        error);
  };
  EXPECT_EQ(value("a % 4 == 2 && !rings.reads"), 1);
  EXPECT_EQ(value("a < 6 || a > 6"), 0);
  EXPECT_EQ(value("if(a >= 6, max(a, 7), 0) + min(1, 2)"), 8);
  EXPECT_EQ(value("ceildiv(a, 4) * pow2floor(a) != -8"), 1);
  EXPECT_EQ(value("b"), std::nullopt);
  EXPECT_EQ(error, "expression 'b': unknown name 'b' at column 1");
  EXPECT_EQ(value("1 / (a - 6)"), std::nullopt);
}
} // namespace
