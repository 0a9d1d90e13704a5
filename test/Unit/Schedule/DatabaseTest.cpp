//===- DatabaseTest.cpp - schedules that come with the compiler -----------===//

#include "fa2/Schedule/Database.h"
#include "fa2/Target/Target.h"

#include "gtest/gtest.h"

#include <set>
#include <tuple>

using namespace fa2;

namespace {

ScheduleDatabase shipped() {
  std::string error;
  auto database = ScheduleDatabase::shipped(error);
  EXPECT_TRUE(mlir::succeeded(database)) << error;
  return mlir::succeeded(database) ? *database : ScheduleDatabase();
}

// A compilation reads a head dim's rows alone, and finds what it would among
// all of them.
TEST(Database, TheRowsOfAHeadDimServeAsAllDo) {
  ScheduleDatabase all = shipped();
  size_t found = 0;
  for (const Target *target : allTargets())
    for (int64_t dim = 8; dim <= 256; dim += 8)
      for (bool masked : {false, true})
        for (bool backward : {false, true}) {
          Problem problem{dim, dim, masked, backward, /*maxSlack=*/60};
          std::string error;
          auto few = ScheduleDatabase::open("", problem, error);
          ASSERT_TRUE(mlir::succeeded(few)) << error;
          const ScheduleRow *a = all.find(*target, problem);
          const ScheduleRow *b = few->find(*target, problem);
          ASSERT_EQ(a != nullptr, b != nullptr) << dim;
          if (!a)
            continue;
          ++found;
          EXPECT_EQ(a->schedule, b->schedule) << dim;
          EXPECT_EQ(a->arch, b->arch) << dim;
        }
  EXPECT_GT(found, all.rows().size());
}

// One row a problem: which of two would serve is for nobody to guess.
TEST(Database, AProblemHasOneRow) {
  std::set<std::tuple<std::string, std::string, int64_t, int64_t, bool, bool>>
      seen;
  ScheduleDatabase all = shipped();
  for (const ScheduleRow &row : all.rows())
    EXPECT_TRUE(seen.insert({row.arch, row.dtype, row.problem.headDim,
                             row.problem.headDimV, row.problem.masked,
                             row.problem.backward})
                    .second)
        << row.arch << " " << row.problem.headDim;
}

TEST(Database, MostMultiplesOfSixteenWereMeasured) {
  ScheduleDatabase all = shipped();
  std::string error;
  size_t missing = 0;
  for (const char *arch : {"sm_80", "sm_90a"})
    for (int64_t dim = 16; dim <= 256; dim += 16)
      for (bool masked : {false, true})
        for (bool backward : {false, true})
          missing += !all.find(*lookupTarget(arch, error),
                               {dim, dim, masked, backward, /*maxSlack=*/60});
  EXPECT_LE(missing, 5u);
}

} // namespace
