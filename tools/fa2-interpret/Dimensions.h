//===- Dimensions.h - expressions of a case's lengths -----------*- C++ -*-===//
#ifndef FA2INTERPRET_DIMENSIONS_H
#define FA2INTERPRET_DIMENSIONS_H

#include "Configuration.h"
#include "fa2/Interpreter/Interpreter.h"

#include <optional>
#include <string>
#include <vector>

namespace fa2interpret {

/// The value of an expression (docs/manifest.md) for a case, and on a device of
/// the kernel's target: an A100 of 108 multiprocessors or an H100 of 132. It
/// may ask how `arguments` lie.
int64_t evaluate(const std::string &expression, const fa2run::Kernel &kernel,
                 const fa2run::Configuration &configuration,
                 const std::vector<fa2::interpreter::Argument> &arguments = {});

/// The case's extent of that name.
std::optional<int64_t> extentNamed(const std::string &name,
                                   const fa2run::Configuration &configuration);

/// Refuses a case that the manifest's `requires` refuse.
void checkRequirements(const std::string &manifest,
                       const fa2run::Kernel &kernel,
                       const fa2run::Configuration &configuration);

} // namespace fa2interpret

#endif // FA2INTERPRET_DIMENSIONS_H
