//===- PtxEntries.h - the entries of a PTX text -----------------*- C++ -*-===//
#ifndef FA2RT_LIB_PTXENTRIES_H
#define FA2RT_LIB_PTXENTRIES_H

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa2rt {

struct PtxEntry {
  std::string name;
  std::vector<size_t> parameterBytes; // one for each .param, in order
  /// Where its declaration and its body lie in the text.
  size_t begin = 0, end = 0;
};

/// The `.entry` declarations of a PTX text and the sizes of their parameters:
/// enough to see that a manifest and its kernels belong together. A size that
/// cannot be read is 0; a text that has no tokens is refused. The words are
/// the simulator's, so that it and this see the same entries.
std::vector<PtxEntry> findEntries(std::string_view ptx);

/// The text with the named entries alone, and everything that is no entry.
std::string keepEntries(std::string_view ptx,
                        std::span<const std::string> names);

} // namespace fa2rt

#endif // FA2RT_LIB_PTXENTRIES_H
