//===- Bundle.h - compiled candidates in a folder ---------------*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_BUNDLE_H
#define FA2_TOOLS_TUNEBUILD_BUNDLE_H

#include "Candidates.h"

#include "llvm/Support/JSON.h"

namespace fa2tune {

/// The version of bundle.json; fa2-tune measure reads this one.
constexpr int64_t kBundleVersion = 1;

struct Wanted {
  Subject subject;
  std::vector<fa2::Shape> shapes;
  std::vector<Candidate> candidates;
};

/// Compiles all candidates on `jobs` threads into `folder`, a file each, then
/// writes bundle.json. What does not compile, or compiles to code that another
/// has, is listed with the reason. Returns what is wrong, or "".
std::string writeBundle(llvm::StringRef folder,
                        const std::vector<Wanted> &wanted, unsigned jobs,
                        bool quiet);

} // namespace fa2tune

#endif
