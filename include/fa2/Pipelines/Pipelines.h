//===- Pipelines.h - the named pipeline from attention to NVVM --*- C++ -*-===//
//
// One list of stages. fa2-opt --fa2-pipeline=..., fa2-compile and the C
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
  Option<std::string> stopAfter{
      *this, "stop-after",
      llvm::cl::desc("last pass to run, such as fa2-tile (empty: all)"),
      llvm::cl::init("")};
  Option<bool> remarks{*this, "remarks",
                       llvm::cl::desc("a remark for each decision"),
                       llvm::cl::init(false)};
  Option<bool> lineInfo{*this, "line-info",
                        llvm::cl::desc("line numbers of the input in the PTX"),
                        llvm::cl::init(false)};
  // The schedule; defaults leave the choice to fa2-select-schedule.
  Option<int64_t> blockQ{*this, "block-q",
                         llvm::cl::desc("rows of a query tile"),
                         llvm::cl::init(0)};
  Option<int64_t> blockKV{*this, "block-kv",
                          llvm::cl::desc("rows of a key tile"),
                          llvm::cl::init(0)};
  Option<int64_t> warps{*this, "warps", llvm::cl::desc("warps a block"),
                        llvm::cl::init(0)};
  Option<int64_t> stages{*this, "stages",
                         llvm::cl::desc("slots of the key and value rings"),
                         llvm::cl::init(0)};
  Option<std::string> partition{*this, "partition",
                                llvm::cl::desc("split_q or split_k"),
                                llvm::cl::init("")};
  Option<int64_t> qInRegisters{*this, "q-in-registers",
                               llvm::cl::desc("0, 1 or -1 to choose"),
                               llvm::cl::init(-1)};
  Option<int64_t> lazyRescale{
      *this, "lazy-rescale",
      llvm::cl::desc("powers of two before the accumulator is rescaled"),
      llvm::cl::init(-1)};
  Option<int64_t> minBlocks{
      *this, "min-blocks",
      llvm::cl::desc("blocks a multiprocessor should hold"), llvm::cl::init(0)};
  Option<int64_t> keyWarps{*this, "key-warps",
                           llvm::cl::desc("backward: warps along the keys"),
                           llvm::cl::init(0)};
  Option<int64_t> dqWarps{
      *this, "dq-warps", llvm::cl::desc("backward: warps along the rows of dQ"),
      llvm::cl::init(0)};
  Option<std::string> dq{
      *this, "dq", llvm::cl::desc("backward: atomic, atomic_v4 or recompute"),
      llvm::cl::init("")};
  Option<std::string> order{*this, "order",
                            llvm::cl::desc("ascending or longest_first"),
                            llvm::cl::init("")};
  Option<std::string> tuning{
      *this, "tuning", llvm::cl::desc("fields of the schedule: name=value,..."),
      llvm::cl::init("")};
  Option<std::string> variants{
      *this, "variants",
      llvm::cl::desc("guard: name=value,...; ... or none (empty: choose)"),
      llvm::cl::init("")};
};

/// Stages by name, in order: the names of our passes, then "nvvm".
llvm::ArrayRef<llvm::StringRef> pipelineStages();

/// Adds one of those stages to a pass manager of builtin.module.
void addStage(mlir::OpPassManager &pm, llvm::StringRef stage,
              const PipelineOptions &options);

/// Adds the pipeline to a pass manager of builtin.module. Fails, with `error`
/// saying so, when `stopAfter` names no stage.
mlir::LogicalResult buildPipeline(mlir::OpPassManager &pm,
                                  const PipelineOptions &options,
                                  std::string &error);

/// Makes --fa2-pipeline known.
void registerPipelines();

} // namespace fa2

#endif
