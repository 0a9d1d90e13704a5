//===- Passes.td - passes on laid-out tiles ----------------*- tablegen -*-===//
#ifndef FA2_GPUTRANSFORMS_PASSES_TD
#define FA2_GPUTRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FormRings : Pass<"fa2gpu-form-rings", "::fa2::KernelOp"> {
  let summary = "loads become uses of rings in shared memory; nothing moves";
  let description = [{
    A load in the kv loop takes a ring of `stages` slots, numbered by the loop's
    counter; any other load, and the tile to be stored, a ring of one slot. Each load
    becomes acquire, copy, commit, wait, and a release after its last use.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def PipelineLoop : Pass<"fa2gpu-pipeline", "::fa2::KernelOp"> {
  let summary = "moves copies ahead of their use, and scores ahead of the softmax";
  let description = [{
    With s >= 2 stages, the copies of iteration i + s - 1 are issued in iteration i, right
    after its waits. With one stage, the keys of iteration i + 1 are copied once those of
    iteration i were read, the values of iteration i while its scores are computed
    (FlashAttention-2's order). Copies past the last iteration are predicated off.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def SplitMaskedTiles : Pass<"fa2gpu-split-masked-tiles", "::fa2::KernelOp"> {
  let summary = "splits the kv loop's iterations into masked and full ones";
  let description = [{
    Index-set splitting: the loop over [0, n) becomes consecutive loops over the
    iterations before the full tiles, the full tiles, and those after; the state crosses from
    one to the next. Where a tile is full its mask is gone, its softmax need not
    expect empty rows, and copies that cannot be the sequence's last tile carry no bound.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def PlaceWaits : Pass<"fa2gpu-place-waits", "::fa2::KernelOp"> {
  let summary = "acquire, wait and release become copy groups and barriers";
  let description = [{
    Walks the program in order of execution and counts the copy groups in flight.
    Each ring.wait whose group may be open, or has not been seen by a barrier, becomes a
    wait for the groups newer than its own and a barrier; an acquire gets a barrier
    when none stands since the release of the use it overwrites.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def Allocate : Pass<"fa2gpu-allocate", "::fa2::KernelOp"> {
  let summary = "gives every ring its place in shared memory";
  let description = [{
    Rings whose lives do not meet share bytes; a barrier then stands before the first
    write of the later one. Fails when the total exceeds what the target allows a block.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

#endif
