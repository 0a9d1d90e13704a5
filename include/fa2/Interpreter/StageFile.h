//===- StageFile.h - a file that a stage left, to be run --------*- C++ -*-===//
//
// Plain C++, no MLIR: what tools need of a file to call its kernels.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_INTERPRETER_STAGEFILE_H
#define FA2_INTERPRETER_STAGEFILE_H

#include "fa2/Interpreter/Values.h"

namespace fa2::interpreter {

class StageFile {
public:
  /// A kernel's launch; one that shares the rows with another has several.
  struct Kernel {
    std::string name;
    std::string when; // an expression (docs/manifest.md), or empty
    std::string from = {}, count = {}; // of the rows, or empty: all
  };
  /// Rows of every head.
  struct Rows {
    int64_t from, count;
  };
  /// Memory that a program's kernels share: extents are expressions.
  struct Workspace {
    std::string name;
    std::vector<std::string> shape; // of f32
    bool operator==(const Workspace &) const = default;
  };

  /// Reads and verifies a file ("-": standard input). Null where it is none of
  /// kernels of tiles; errors, with their places, are on standard error.
  static std::unique_ptr<StageFile> read(const std::string &path);
  ~StageFile();

  /// The manifest (docs/manifest.md) that the program would have, but for
  /// grids and parameters of its kernels.
  const std::string &manifest() const;
  const std::vector<Kernel> &kernels() const;
  /// Those of a kernel: of its alternative.
  const std::vector<Workspace> &workspaces(size_t kernel) const;

  /// Runs all blocks of a kernel, for some of the rows if they are given.
  /// False, with an error on standard error: it cannot be run.
  bool run(size_t kernel, std::vector<Argument> arguments,
           const Observer &observer, std::optional<Rows> rows = {});

private:
  struct Contents;
  explicit StageFile(std::unique_ptr<Contents> contents);
  std::unique_ptr<Contents> contents;
};

} // namespace fa2::interpreter

#endif
