//===- KernelList.h - which kernels the grid runs ---------------*- C++ -*-===//
#ifndef FA2_TEST_GRID_KERNELLIST_H
#define FA2_TEST_GRID_KERNELLIST_H

#include <cstdint>
#include <regex>
#include <string>
#include <vector>

namespace fa2grid {

/// One line of kernels.txt: the flags of fa2-compile, or a PTX file.
struct KernelEntry {
  std::string text;
  unsigned line = 0;
  std::string flags = ""; // the text, with its file where it is found
  /// What its configurations are drawn by: the text's, so that a line above
  /// it changes nothing.
  uint64_t seed() const;
};

/// Throws fa2run::Failure with the line's number. Files are looked for
/// beside the list.
std::vector<KernelEntry> readKernelList(const std::string &path);

/// The PTX of an entry; throws fa2run::Failure with the compiler's words.
std::string ptxOf(const KernelEntry &entry, const std::string &compiler);

/// One line of unexecuted.txt: "KERNEL | INSTRUCTION | REASON", the first two
/// regular expressions that must match the whole text; registers and labels
/// are written without their numbers.
struct Exemption {
  std::regex kernel, instruction;
  std::string reason;
  unsigned line = 0;
};

std::vector<Exemption> readExemptions(const std::string &path);

/// A PTX line without registers' and labels' numbers, blanks and comments.
std::string normalised(const std::string &line);

} // namespace fa2grid

#endif // FA2_TEST_GRID_KERNELLIST_H
