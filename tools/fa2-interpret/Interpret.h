//===- Interpret.h - a case through a stage's kernels -----------*- C++ -*-===//
#ifndef FA2INTERPRET_INTERPRET_H
#define FA2INTERPRET_INTERPRET_H

#include "Case.h"
#include "fa2/Interpreter/StageFile.h"

#include <string>

namespace fa2interpret {

/// A file, and what its kernels made of a case.
struct Run {
  std::string path;
  std::unique_ptr<fa2::interpreter::StageFile> file;
  fa2run::Kernel kernel;
  std::vector<std::string> ran; // kernels
  fa2run::Tensors tensors;
};

/// Reads a file; throws Failure, with errors on standard error, where its
/// kernels are none of tiles.
Run readStage(const std::string &path);

/// Draws the case and runs the kernels whose guards hold, or those of `only`,
/// in order. Throws Failure where one cannot be run.
void interpretCase(Run &run, const fa2run::Configuration &configuration,
                   const fa2run::RunOptions &options,
                   const std::vector<std::string> &only,
                   const fa2::interpreter::Observer &observer);

} // namespace fa2interpret

#endif // FA2INTERPRET_INTERPRET_H
