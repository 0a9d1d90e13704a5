//===- Choose.h - results become rows of a database -------------*- C++ -*-===//
#ifndef FA2TUNE_CHOOSE_H
#define FA2TUNE_CHOOSE_H

#include "Results.h"

namespace fa2tune {

/// The newest version of the database, which the compiler reads, and older
/// ones: with 2 rows may have needs. One without them is written as 1.
constexpr int64_t kDatabaseVersion = 2;

/// Schedules that a row has at most, for launches of different lengths.
constexpr size_t kMostKernels = 3;

/// A row for each problem: of the schedules that are nowhere slower than
/// today's the one, or several up to `kernels`, that lose least over all shapes
/// together; today's where none gains enough.
std::vector<OrderedJson> chooseRows(const Results &results, size_t kernels);

/// The rows of a database's file. Throws Failure.
std::vector<OrderedJson> readDatabase(const std::string &path);

/// Of rows for the same thing the later one.
std::vector<OrderedJson>
mergeRows(const std::vector<std::vector<OrderedJson>> &databases);

/// A JSON document with a row a line.
std::string databaseText(const std::vector<OrderedJson> &rows);

} // namespace fa2tune

#endif // FA2TUNE_CHOOSE_H
