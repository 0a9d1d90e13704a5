//===- PtxEntries.h - the entries of a PTX text -----------------*- C++ -*-===//
#ifndef FA2RT_LIB_PTXENTRIES_H
#define FA2RT_LIB_PTXENTRIES_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fa2rt {

struct PtxEntry {
  std::string name;
  std::vector<size_t> parameterBytes; // one for each .param, in order
};

/// The `.entry` declarations of a PTX text and the sizes of their parameters:
/// enough to see that a manifest and its kernels belong together. A size that
/// cannot be read is 0; a text that has no tokens is refused. The words are
/// the simulator's, so that it and this see the same entries.
std::vector<PtxEntry> findEntries(std::string_view ptx);

} // namespace fa2rt

#endif // FA2RT_LIB_PTXENTRIES_H
