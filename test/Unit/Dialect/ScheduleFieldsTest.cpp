//===- ScheduleFieldsTest.cpp - the table of fields, as text --------------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "gtest/gtest.h"

#include <set>

using namespace fa2;

namespace {

template <typename T> T another(T value) { return T(!int64_t(value)); }

/// A schedule with one field that is not at its default.
template <typename T>
std::pair<Schedule, std::string> withOne(const ScheduleField<T> &field) {
  Schedule s;
  T value = another(s.*field.member);
  if constexpr (std::is_same_v<T, int64_t>)
    value = field.range.contains(field.range.from) &&
                    field.range.from != s.*field.member
                ? field.range.from
                : field.range.to;
  s.*field.member = value;
  return {s, field.text(value)};
}

// Text, overrides and the schedule agree on every line of the table.
TEST(ScheduleFields, EveryFieldCanBeSaid) {
  std::set<std::string> names;
  forEachScheduleField([&](auto field) {
    auto [expected, value] = withOne(field);
    ScheduleOverrides asked;
    EXPECT_EQ(asked.setFields("it", field.name.str() + " = " + value), "");
    EXPECT_EQ(asked.applyTo(Schedule()), expected) << field.name.str();
    EXPECT_EQ(asked.check(), "") << field.name.str();
    EXPECT_FALSE(field.isDefault(expected)) << field.name.str();
    EXPECT_TRUE(field.isDefault(Schedule())) << field.name.str();
    EXPECT_NE(hash_value(expected), hash_value(Schedule()));
    EXPECT_TRUE(names.insert(field.name.str()).second) << field.name.str();
  });
  EXPECT_EQ(names.size(), scheduleFieldHelp().size());
}

// The default of every field is one of its values.
TEST(ScheduleFields, DefaultsAreInRange) {
  ScheduleOverrides all;
  forEachScheduleField(
      [&](auto field) { all.*field.asked = Schedule().*field.member; });
  EXPECT_EQ(all.check(), "");
  EXPECT_EQ(Schedule().check(), "");
}

TEST(ScheduleFields, AreRefusedByName) {
  auto wrong = [](llvm::StringRef text) {
    ScheduleOverrides asked;
    std::string form = asked.setFields("schedule", text);
    return form.empty() ? asked.check() : form;
  };
  EXPECT_EQ(wrong(""), "");
  EXPECT_EQ(wrong("block-q=64, warps=4,order=longest-first,overlap=true"), "");
  EXPECT_EQ(wrong("overlap"),
            "expected schedule to be name=value,..., got 'overlap'");
  EXPECT_EQ(wrong("overlap=yes"), "expected overlap to be 0 or 1, got 'yes'");
  EXPECT_EQ(wrong("overlap=2"), "expected overlap to be 0 or 1, got '2'");
  EXPECT_EQ(wrong("order=1"),
            "expected order to be ascending, longest_first, interleaved, "
            "shortest_first, descending, batches_abreast, "
            "longest_batches_abreast, balanced, interleaved_batches_abreast or "
            "shortest_then_longest, got '1'");
  EXPECT_EQ(wrong("dq=sum"),
            "expected dq to be atomic, recompute, atomic_v4, ordered or "
            "deterministic, got 'sum'");
  EXPECT_EQ(wrong("stages=two"), "expected stages to be 1 to 4, got 'two'");
  EXPECT_EQ(wrong("stages=9223372036854775808"),
            "expected stages to be 1 to 4, got '9223372036854775808'");
  EXPECT_EQ(wrong("warps=4,stages=5"), "expected stages to be 1 to 4, got 5");
  EXPECT_EQ(wrong("block_kv=72"),
            "expected block_kv to be a multiple of 16 from 16 to 256, got 72");
  EXPECT_EQ(wrong("packed_heads=3"),
            "expected packed_heads to be a power of two from 1 to 64, got 3");
  EXPECT_EQ(wrong("packed_heads=0"),
            "expected packed_heads to be a power of two from 1 to 64, got 0");
  EXPECT_EQ(wrong("query_slots=-1"),
            "expected query_slots to be 1 or 2, got -1");
  EXPECT_EQ(wrong("stages=2,stages=2"), "");
  EXPECT_EQ(wrong("stages=2,stages=3"),
            "expected one value of stages, got 2 and 3");
  EXPECT_EQ(wrong("pingpong=1")
                .rfind("unknown schedule field 'pingpong'; the "
                       "nearest is ping_pong (known: block_q, ",
                       0),
            0u);
}

// What zeros stand for.
TEST(ScheduleFields, Derived) {
  Schedule s;
  s.warps = 8;
  s.blockQ = 64;
  s.stages = 3;
  EXPECT_EQ(s.derived().keyWarps, 8);
  EXPECT_EQ(s.derived().dqWarps, 4); // 64 rows are 16 of each
  EXPECT_EQ(s.derived().slotsK, 3);
  s.slotsK = 2;
  EXPECT_EQ(s.slotsOf("k", /*inLoop=*/true), 2);
  EXPECT_EQ(s.slotsOf("v", /*inLoop=*/true), 3);
  EXPECT_EQ(s.slotsOf("q", /*inLoop=*/true), 3);
  EXPECT_EQ(s.slotsOf("q", /*inLoop=*/false), 1);
}

} // namespace
