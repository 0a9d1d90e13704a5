//===- BuildModule.cpp - a specification as an fa2.attention --------------===//

#include "fa2/Compiler/Compiler.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fa2;

OwningOpRef<ModuleOp> fa2::buildModule(MLIRContext *context,
                                       const Specification &spec) {
  OpBuilder b(context);
  Location loc = UnknownLoc::get(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());

  Type element = spec.dtype == "f16" ? Type(b.getF16Type()) : b.getBF16Type();
  auto tensor = [&](int64_t headDim) {
    return RankedTensorType::get({ShapedType::kDynamic, ShapedType::kDynamic,
                                  ShapedType::kDynamic, headDim},
                                 element);
  };
  RankedTensorType qk = tensor(spec.headDim);
  RankedTensorType v = tensor(spec.headDimV ? spec.headDimV : spec.headDim);
  auto lse = RankedTensorType::get(
      llvm::SmallVector<int64_t>(3, ShapedType::kDynamic), b.getF32Type());
  auto func = func::FuncOp::create(
      b, loc, spec.forwardName(),
      b.getFunctionType({qk, qk, v, b.getF32Type()}, {v, lse}));

  Block *entry = func.addEntryBlock();
  constexpr llvm::StringRef names[] = {"q", "k", "v", "scale"};
  for (auto [arg, name] : llvm::zip(entry->getArguments(), names))
    arg.setLoc(NameLoc::get(b.getStringAttr(name)));
  b.setInsertionPointToStart(entry);

  IntervalMaskAttr mask;
  if (spec.mask != "none")
    mask = cast<IntervalMaskAttr>(
        MaskAttr::get(context, *symbolizeMaskKind(spec.mask)));
  auto attention = AttentionOp::create(
      b, loc, TypeRange{v, lse}, entry->getArgument(0), entry->getArgument(1),
      entry->getArgument(2), entry->getArgument(3), /*extras=*/ValueRange(),
      /*extra_names=*/ArrayAttr(), mask, /*schedule=*/ScheduleAttr(),
      /*variants=*/ArrayAttr());
  func::ReturnOp::create(b, loc, attention.getResults());
  return module;
}
