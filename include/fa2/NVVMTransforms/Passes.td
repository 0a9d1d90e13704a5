//===- Passes.td - passes on scalars, LLVM and NVVM --------*- tablegen -*-===//
#ifndef FA2_NVVMTRANSFORMS_PASSES_TD
#define FA2_NVVMTRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReduceDivisions : Pass<"fa2-reduce-divisions"> {
  let summary = "loops carry remainders and quotients of their counters instead of dividing";
  let description = [{
    Strength reduction (Cocke and Kennedy, CACM 20(11), 1977) of unsigned divisions by a constant that is no
    power of two, where the dividend is the counter of an scf.for of step 1 plus invariants: a ring of three slots
    takes use n to slot n mod 3, phase n / 3. One division stands before the loop; in it, remainder and quotient are
    stepped by compare and select. Dividends must not wrap around.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def ShareFunctions : Pass<"fa2-share-functions", "::mlir::ModuleOp"> {
  let summary = "launches of equal functions take one";
  let description = [{
    Kernels before and after the one that variants of a program differ in often come out equal: the statistics of
    backward's rows where tiles are as long, dQ's conversion. The first one's function serves them all, so it is
    compiled and loaded once. A function's attributes (threads, cluster, minimal blocks) and the shared memory of its
    launches must be equal too; parameters may mean different things, as each launch gives its own.
  }];
  let dependentDialects = ["::fa2::gpu::FA2GPUDialect"];
}

def ConvertScalarsToNVVM : Pass<"convert-fa2-scalars-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "arith, cf and gpu of a kernel's scalars to the LLVM and NVVM dialects";
  let description = [{
    Upstream's patterns of convert-gpu-to-nvvm, with an index of 32 bits. That pass first rewrites all of a module
    greedily, for operations that no kernel here has, which takes as long again.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def PassMapsByValue : Pass<"fa2-pass-maps-by-value", "::mlir::ModuleOp"> {
  let summary = "tensor maps are kernel parameters by value, constant over the grid";
  let description = [{
    The parameters that a fa2gpu.launch describes as tensor maps become 128 bytes passed by value
    (llvm.byval, aligned to 64) and nvvm.grid_constant, so that the copy engine reads them where the
    launch put them; otherwise they would be copied to each thread's stack.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

#endif
