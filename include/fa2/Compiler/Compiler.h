//===- Compiler.h - from a specification to PTX -----------------*- C++ -*-===//
//
// Builds the operation that a person would write by hand and runs the
// registered pipeline on it: nothing here can do what fa2-opt and fa2-translate
// cannot.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_COMPILER_COMPILER_H
#define FA2_COMPILER_COMPILER_H

#include "fa2/Compiler/Specification.h"
#include "fa2/Target/Problem.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <optional>

namespace fa2 {

/// How far to go, and as which text to return the result.
enum class OutputKind { FA2, Tiles, GPU, NVVM, LLVMIR, PTX };

struct StageTime {
  std::string stage;
  double milliseconds; // of CPU time of this thread
};

struct Compilation {
  std::string text;
  /// Read from a cache: `times` then has one stage, which is that.
  bool cached = false;
  std::string kernel;
  /// #fa2.schedule as chosen, and why.
  std::string schedule;
  /// Every field of it, as `schedule=` takes them; then those of each variant,
  /// "GUARD: fields", of which the first whose guard holds is for a launch.
  std::vector<std::string> choices;
  std::vector<std::string> reasons, warnings;
  /// What is wrong with the cache; the compilation is right.
  std::string cacheWarning;
  /// What else could be asked for.
  std::vector<std::string> notes;
  /// Of the main launch; 0 where the compilation stopped before it was known.
  int64_t sharedBytes = 0, threads = 0;
  struct VariantLaunch {
    std::string when;
    int64_t sharedBytes, threads;
  };
  std::vector<VariantLaunch> variants;
  std::vector<StageTime> times;
};

struct CompileOptions {
  OutputKind emit = OutputKind::PTX;
  bool lineInfo = false;
  /// Where a stage that fails or crashes leaves its input and its name, for
  /// fa2-opt --run-reproducer; empty: nowhere.
  std::string reproducer;
  /// Called with the module's text after each stage of the pipeline.
  std::function<void(llvm::StringRef stage, llvm::StringRef text)> onStage;
};

/// func.func with arguments %q, %k, %v and %scale around one fa2.attention.
mlir::OwningOpRef<mlir::ModuleOp> buildModule(mlir::MLIRContext *context,
                                              const Specification &spec);

/// Compiles: an operation built from `spec`, or where there is a `source` the
/// one fa2.attention in that module's text, for the architecture, the pass and
/// the schedule of `spec`. Safe from several threads at once. On failure
/// `error` has one line, lower case, that names the field, its value and the
/// limit.
mlir::FailureOr<Compilation>
compile(const Specification &spec, const CompileOptions &options,
        std::string &error, std::optional<llvm::StringRef> source = {});

/// The same, or what it gave before, by the cache of `spec`. What is wrong with
/// an entry or with keeping one is its cacheWarning.
mlir::FailureOr<Compilation>
compileCached(const Specification &spec, const CompileOptions &options,
              std::string &error, std::optional<llvm::StringRef> source = {});

/// What the schedule of such a compilation is chosen for; fails as it does.
mlir::FailureOr<Problem> problemOf(const Specification &spec,
                                   std::string &error,
                                   std::optional<llvm::StringRef> source = {});

/// An error as it is shown: of a long one, which quotes a long value, the
/// beginning and the end.
std::string shortened(llvm::StringRef error);

} // namespace fa2

#endif
