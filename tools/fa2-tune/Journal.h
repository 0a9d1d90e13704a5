//===- Journal.h - results that survive any end -----------------*- C++ -*-===//
//
// A file of JSON lines that is only ever appended to, a line at a time. What a
// crash leaves of a last line is cut off when the file is opened again.
//
//===----------------------------------------------------------------------===//
#ifndef FA2TUNE_JOURNAL_H
#define FA2TUNE_JOURNAL_H

#include "Bundle.h"

#include <mutex>

namespace fa2tune {

constexpr int64_t kResultsVersion = 1;

/// The lines of a results file. Throws Failure with the number of a bad one.
std::vector<nlohmann::json> readResults(const std::string &path);

class Journal {
public:
  /// Opens or creates; one process at a time. Throws Failure.
  explicit Journal(const std::string &path);
  ~Journal();
  Journal(const Journal &) = delete;

  /// Those that stood when it was opened.
  const std::vector<nlohmann::json> &lines() const { return standing; }
  /// Adds a line, whole or not at all. Throws Failure. Safe from any thread.
  void append(const OrderedJson &line);

private:
  std::string path;
  int file = -1;
  std::mutex mutex;
  std::vector<nlohmann::json> standing;
};

} // namespace fa2tune

#endif // FA2TUNE_JOURNAL_H
