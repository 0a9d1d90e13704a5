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
