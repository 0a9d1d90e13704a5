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
  std::set<std::tuple<std::string, std::string, int64_t, int64_t, bool, bool,
                      std::string>>
      seen;
  ScheduleDatabase all = shipped();
  for (const ScheduleRow &row : all.rows())
    EXPECT_TRUE(seen.insert({row.arch, row.dtype, row.problem.headDim,
                             row.problem.headDimV, row.problem.masked,
                             row.problem.backward, row.problem.needs()})
                    .second)
        << row.arch << " " << row.problem.headDim;
}

// Backward's products of scores may begin with what a program adds; then its
// loop is that of no program, and so is its schedule.
TEST(Database, ProgramsThatAddTakeTheRowWithoutOne) {
  ScheduleDatabase all = shipped();
  std::string error;
  const Target &target = *lookupTarget("sm_90a", error);
  Problem plain{128, 128, /*masked=*/false, /*backward=*/true, /*maxSlack=*/60};
  Problem adds = plain;
  adds.program = true;
  const ScheduleRow *row = all.find(target, adds);
  ASSERT_TRUE(row);
  EXPECT_EQ(row, all.find(target, plain));
  Schedule with = scheduleOf(*row, target, adds),
           without = scheduleOf(*row, target, plain);
  EXPECT_EQ(with.preload, Preload::Both);
  EXPECT_TRUE(with.roundedP);
  EXPECT_FALSE(variantsOf(*row, adds));
  with.preload = without.preload;
  EXPECT_EQ(with, without);
  // Sums are of P in f32.
  Problem sums = adds;
  sums.sums = true;
  EXPECT_FALSE(scheduleOf(*row, target, sums).roundedP);
  // What multiplies, reads tiles, or has a row of its own has another.
  for (bool Problem::*more :
       {&Problem::slope, &Problem::dropout, &Problem::rowSums,
        &Problem::storesScores, &Problem::elementReads}) {
    Problem other = adds;
    other.*more = true;
    EXPECT_FALSE(all.find(target, other));
  }
  Problem own = adds;
  own.headDim = own.headDimV = 96;
  own.masked = own.distance = true;
  EXPECT_EQ(all.find(target, own)->problem.needs(), "program,distance");
  // The older family's kernels were measured with what is added later.
  EXPECT_FALSE(all.find(*lookupTarget("sm_80", error), adds));
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
