//===- FA2GPUDialect.td - the fa2gpu dialect ---------------*- tablegen -*-===//
#ifndef FA2_DIALECT_FA2GPU_FA2GPUDIALECT_TD
#define FA2_DIALECT_FA2GPU_FA2GPUDIALECT_TD

include "mlir/IR/OpBase.td"

def FA2GPU_Dialect : Dialect {
  let name = "fa2gpu";
  let cppNamespace = "::fa2::gpu";
  let summary = "tiles laid out over the warps of a block, and the copies that feed them";
  let description = [{
    The tensors of the fa2 dialect gain an encoding that says which warp, lane and
    register holds each element, or how they lie in shared memory. Copies go
    through rings of slots in shared memory, matmuls are started and waited for.
    An instruction family is an attribute; it owns the one table of layouts from
    which fragments, shared-memory addresses and swizzles are derived.

    `fa2gpu.plan` on a kernel says what its block is made of, its roles among it (`#fa2gpu.plan`), `fa2gpu.role` on an operation names the one
    that it is part of; `fa2gpu-assign-roles` writes what is left to write.
  }];
  let hasOperationAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::fa2::FA2Dialect"];
}

#endif
