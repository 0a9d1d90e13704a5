//===- Passes.td - conversions between levels --------------*- tablegen -*-===//
#ifndef FA2_CONVERSION_PASSES_TD
#define FA2_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFA2ToFA2GPU : Pass<"convert-fa2-to-fa2gpu", "::fa2::KernelOp"> {
  let summary = "warp partitioning: gives every tile a layout";
  let description = [{
    Every tile gets its encoding: products and what is elementwise on them the
    accumulator layout, row vectors the row layout (sums stay partial over lanes), loaded
    tiles shared memory, left operands that were computed the operand layout. The
    schedule's `partition` decides how warps share a tile: `split_q` by rows, `split_k` by
    keys. Loads and products become those of fa2gpu; key ranges become arithmetic.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
}

def ConvertFA2GPUToNVVM : Pass<"convert-fa2gpu-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "kernels become LLVM and NVVM operations on scalars in a gpu.module";
  let description = [{
    1:N type conversion: a tile in registers becomes one SSA value an element that a
    thread owns (packed pairs in operand layouts), a view its address, strides and length,
    a slot its address. Beside each gpu.module stands the fa2gpu.launch that the manifest
    is written from.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect", "::mlir::gpu::GPUDialect", "::mlir::NVVM::NVVMDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::mlir::math::MathDialect"];
}

#endif
