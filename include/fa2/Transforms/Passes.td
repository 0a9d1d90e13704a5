//===- Passes.td - passes on attention and tiles -----------*- tablegen -*-===//
#ifndef FA2_TRANSFORMS_PASSES_TD
#define FA2_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def DeriveBackward : Pass<"fa2-derive-backward", "::mlir::ModuleOp"> {
  let summary = "derives the gradient of every fa2.attention as a function beside it";
  let description = [{
    A function f(q, k, v, scale) -> out, lse that is one fa2.attention gives
    f'(q, k, v, out, lse, dout, scale) -> dq, dk, dv that is one fa2.attention_grad with the
    same mask and sink, so that one file yields forward and backward kernels. "forward" in its name
    becomes "backward". Extras that `grads` names have gradients as further results, in f32; those named with ":whole" in
    their own type of 16 bits, and with ":batch", ":heads" or both too, summed over those. With `grad-lse`
    f' takes dlse, the gradient of lse, behind dout; with "sink" in `grads` that of the sink is its last result.
  }];
  let options = [
    Option<"replace", "replace", "bool", "false", "erase the forward function">,
    Option<"grads", "grads", "std::string", "\"\"", "extras to derive by: name,...">,
    Option<"gradLse", "grad-lse", "bool", "false", "lse has a gradient too, an input">,
  ];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

def SelectSchedule : Pass<"fa2-select-schedule", "::mlir::ModuleOp"> {
  let summary = "gives every fa2.attention and fa2.attention_grad a schedule";
  let description = [{
    A schedule that stands on the op already is kept but checked against the
    target. Otherwise the fields asked for win; what they leave open comes from a database of
    measured schedules; where it has none, from a table by head
    dim and target; and outside of the table from a rule: the largest tiles whose
    shared memory and registers fit. Each step of the choice is a remark of the category
    fa2-select-schedule (`--remarks-filter`): what was taken (passed), what was not and why
    (missed), and what it comes to (analysis). Where nothing
    was asked, the table's variants go with its schedule: other schedules, for launches
    where a guard holds.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"sm_80\"", "architecture to compile for">,
    Option<"schedule", "schedule", "std::string", "\"\"", "fields of the schedule: name=value,... (what is left out is chosen)">,
    Option<"variants", "variants", "std::string", "\"\"", "guard: name=value,...; ... or none (empty: the table's, where nothing else is asked)">,
    Option<"database", "database", "std::string", "\"\"", "a database of fa2-tune choose in place of the shipped one, or none">,
  ];
  // A program's copy, in the form that kernels compute, says what they bring for it.
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def TileAttention : Pass<"fa2-tile", "::mlir::ModuleOp"> {
  let summary = "turns functions that are one fa2.attention into one block's program over tiles";
  let description = [{
    Algorithm 1 of FlashAttention-2 (arXiv:2307.08691): a loop over the key tiles that
    the query tile sees, from the last to the first, with the online softmax; the sink is added to
    what the loop leaves of a row. The
    mask bounds the loop; it is applied where a tile is not seen whole. Each variant
    becomes a kernel of its own; `when` says which launches it is for, so that exactly
    one of them is.

    A score program is brought into the form that costs least: scores in powers of two, so that the
    factor log2(e) goes into what is computed seldom; terms of a row leave the loop and are added to
    lse; what it reads for a key alone is computed by a kernel before (`_columns`), from whose
    vectors in the workspace loops read it; a distance of column and row is `fa2.distance`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::tensor::TensorDialect"];
}

def TileAttentionGrad : Pass<"fa2-tile-grad", "::mlir::ModuleOp"> {
  let summary = "turns functions that are one fa2.attention_grad into kernels over tiles";
  let description = [{
    Three kernels of one program, launched in order: the rows' statistics; Algorithm 2 of
    FlashAttention-2 (arXiv:2307.08691), one block a key tile, whose dK and dV stay in
    registers while a loop goes over the query tiles that see it, head by head of its
    group; and dQ: the f32 sum of all key tiles' parts, scaled and rounded, or, with
    `dq = recompute`, a loop over key tiles of its own. A fourth adds up what the statistics of all rows leave of
    the sink's gradient, where it is wanted.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::tensor::TensorDialect", "::fa2::gpu::FA2GPUDialect"];
}

#endif
