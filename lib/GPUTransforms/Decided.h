//===- Decided.h - what passes say of their decisions -----------*- C++ -*-===//
#ifndef FA2_LIB_GPUTRANSFORMS_DECIDED_H
#define FA2_LIB_GPUTRANSFORMS_DECIDED_H

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace fa2::gpu {

/// A remark of `pass` on what it decided at `op`, `name` for short:
/// fa2-opt --remarks-filter=PASS shows it. Costs nothing where nobody listens.
template <typename... Args>
void decided(mlir::Operation *op, llvm::StringRef pass, llvm::StringRef name,
             const char *format, Args &&...args) {
  if (!op->getContext()->getRemarkEngine())
    return;
  auto kernel = op->getParentOfType<KernelOp>();
  if (!kernel)
    kernel = llvm::dyn_cast<KernelOp>(op);
  auto opts = mlir::remark::RemarkOpts::name(name).category(pass);
  if (kernel)
    opts = opts.function(kernel.getSymName());
  mlir::remark::analysis(op->getLoc(), opts)
      << mlir::remark::detail::Remark::Arg(
             "Reason",
             llvm::formatv(format, std::forward<Args>(args)...).str());
}

} // namespace fa2::gpu

#endif
