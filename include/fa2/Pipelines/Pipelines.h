//===- Pipelines.h - the named pipeline from attention to NVVM --*- C++ -*-===//
//
// One list of steps. fa2-opt --fa2-pipeline=..., fa2-compile and the C
// interface run this one; it can stop after any stage.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_PIPELINES_PIPELINES_H
#define FA2_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

#include <string>

namespace fa2 {

struct PipelineOptions : mlir::PassPipelineOptions<PipelineOptions> {
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("architecture to compile for"),
                             llvm::cl::init("sm_80")};
  Option<std::string> pass{
      *this, "pass",
      llvm::cl::desc("forward, or backward: the gradients of each attention"),
      llvm::cl::init("forward")};
  Option<std::string> grads{
      *this, "grads",
      llvm::cl::desc("what a score program reads, to derive by: name,... (of "
                     "pass=backward)"),
      llvm::cl::init("")};
  Option<bool> gradLse{
      *this, "grad-lse",
      llvm::cl::desc("lse has a gradient too, an input (of pass=backward)"),
      llvm::cl::init(false)};
  Option<std::string> startAt{
      *this, "start-at",
      llvm::cl::desc("first pass to run, on what the one before it left "
                     "(empty: all)"),
      llvm::cl::init("")};
  Option<std::string> stopAfter{
      *this, "stop-after",
      llvm::cl::desc("last pass to run, such as fa2-tile (empty: all)"),
      llvm::cl::init("")};
  Option<bool> lineInfo{*this, "line-info",
                        llvm::cl::desc("line numbers of the input in the PTX"),
                        llvm::cl::init(false)};
  Option<std::string> schedule{
      *this, "schedule",
      llvm::cl::desc("fields of the schedule: name=value,... (what is left "
                     "out is chosen)"),
      llvm::cl::init("")};
  Option<std::string> variants{
      *this, "variants",
      llvm::cl::desc("guard: name=value,...; ... or none (empty: choose)"),
      llvm::cl::init("")};
  Option<std::string> database{
      *this, "database",
      llvm::cl::desc(
          "measured schedules in place of the shipped ones, or none"),
      llvm::cl::init("")};
};

/// The steps by name, in order: the names of our passes, then "nvvm".
llvm::ArrayRef<llvm::StringRef> pipelineStages();

/// Whether a stage leaves scalars alone, and no tiles.
bool leavesScalars(llvm::StringRef stage);

/// Adds one of those steps to a pass manager of builtin.module.
void addStage(mlir::OpPassManager &pm, llvm::StringRef stage,
              const PipelineOptions &options);

/// Adds the pipeline to a pass manager of builtin.module. Fails, with `error`
/// saying so, when `startAt` or `stopAfter` names no stage.
mlir::LogicalResult buildPipeline(mlir::OpPassManager &pm,
                                  const PipelineOptions &options,
                                  std::string &error);

/// Makes --fa2-pipeline known.
void registerPipelines();

} // namespace fa2

#endif
