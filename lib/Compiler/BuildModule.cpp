//===- BuildModule.cpp - a specification as an fa2.attention --------------===//

#include "ScoreForms.h"
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
  llvm::SmallVector<Type> inputs{qk, qk, v, b.getF32Type()};
  llvm::SmallVector<llvm::StringRef> own{"q", "k", "v", "scale"};
  if (!spec.sink.empty()) {
    inputs.push_back(
        RankedTensorType::get({ShapedType::kDynamic}, b.getF32Type()));
    own.push_back("sink");
  }
  if (!spec.dropout.empty()) {
    inputs.append({b.getF32Type(), RankedTensorType::get({4}, b.getI32Type())});
    own.append({"dropout", "rng"});
  }
  llvm::SmallVector<Attribute> names;
  for (const ScoreOperand &operand : scoreOperands(context, spec)) {
    inputs.push_back(operand.type);
    names.push_back(b.getStringAttr(operand.name));
  }
  auto func = func::FuncOp::create(b, loc, spec.forwardName(),
                                   b.getFunctionType(inputs, {v, lse}));

  Block *entry = func.addEntryBlock();
  llvm::SmallVector<Attribute> all;
  for (llvm::StringRef name : own)
    all.push_back(b.getStringAttr(name));
  llvm::append_range(all, names);
  for (auto [arg, name] : llvm::zip(entry->getArguments(), all))
    arg.setLoc(NameLoc::get(cast<StringAttr>(name)));
  b.setInsertionPointToStart(entry);

  IntervalMaskAttr mask;
  if (spec.mask != "none")
    mask = cast<IntervalMaskAttr>(
        MaskAttr::get(context, *symbolizeMaskKind(spec.mask)));
  auto given = [&](llvm::StringRef name) {
    auto at = llvm::find(own, name);
    return at == own.end() ? Value() : entry->getArgument(at - own.begin());
  };
  auto attention = AttentionOp::create(
      b, loc, TypeRange{v, lse}, entry->getArgument(0), entry->getArgument(1),
      entry->getArgument(2), entry->getArgument(3), given("sink"),
      given("dropout"), given("rng"),
      entry->getArguments().drop_front(own.size()),
      names.empty() ? ArrayAttr() : b.getArrayAttr(names), mask,
      /*schedule=*/ScheduleAttr(),
      /*variants=*/ArrayAttr());
  func::ReturnOp::create(b, loc, attention.getResults());
  buildScore(attention, spec);
  return module;
}
