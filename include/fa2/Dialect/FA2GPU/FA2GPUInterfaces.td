//===- FA2GPUInterfaces.td - matmul families, distributed layouts -*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2GPU_FA2GPUINTERFACES_TD
#define FA2_DIALECT_FA2GPU_FA2GPUINTERFACES_TD

include "mlir/IR/OpBase.td"

def FA2GPU_MatmulFamily : AttrInterface<"MatmulFamilyAttr"> {
  let cppNamespace = "::fa2::gpu";
  let description = [{
    A family of matrix instructions: the fragments of one instruction and where its
    operands may live. Everything else about operand layouts follows from them.
  }];
  let methods = [
    InterfaceMethod<"The accumulator's fragment (rows m, columns n).",
      "::fa2::gpu::Fragment", "accumulator", (ins)>,
    InterfaceMethod<"The fragment of operand A (rows m, columns k).",
      "::fa2::gpu::Fragment", "operandA", (ins)>,
    InterfaceMethod<"The fragment of operand B (rows k, columns n).",
      "::fa2::gpu::Fragment", "operandB", (ins)>,
    InterfaceMethod<"Warps that issue one instruction together (1, or 4 for a warpgroup).",
      "int64_t", "warpsPerInstruction", (ins)>,
    InterfaceMethod<"Columns of a panel of B in shared memory, in which an instruction's must begin alike, or 0.",
      "int64_t", "panelColumns", (ins)>,
    InterfaceMethod<"What its instructions cannot do of a product, or an empty string.",
      "::std::string", "checkProduct", (ins "::mlir::RankedTensorType":$a, "::mlir::RankedTensorType":$b,
        "::mlir::RankedTensorType":$d, "bool":$transposeA, "bool":$transposeB)>,
  ];
}

def FA2GPU_DistributedLayout : AttrInterface<"DistributedLayoutAttr"> {
  let cppNamespace = "::fa2::gpu";
  let description = "An encoding whose elements live in registers.";
  let methods = [
    InterfaceMethod<"The map from (warp, lane, register) to coordinates of a tile of this shape.",
      "::fa2::gpu::TileLayout", "tileLayout", (ins "::llvm::ArrayRef<int64_t>":$shape)>,
  ];
}

#endif
