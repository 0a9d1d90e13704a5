//===- Terms.h - what the model sees of what was measured -------*- C++ -*-===//
#ifndef FA2_TOOLS_TUNEBUILD_TERMS_H
#define FA2_TOOLS_TUNEBUILD_TERMS_H

#include <string>

namespace fa2tune {

/// Writes a line for each measured row: the problem, the shape, milliseconds as
/// measured and as estimated, and the features (Features.h), for fits of other
/// models. Returns what is wrong, or an empty string.
std::string writeTerms(const std::string &rows, const std::string &output);

} // namespace fa2tune

#endif
