//===- TileBuilder.cpp - shared by what tiles attention -------------------===//

#include "TileBuilder.h"

#include <cmath>

using namespace mlir;
using namespace fa2;

MemRefType TileBuilder::globalType(RankedTensorType tensor) {
  SmallVector<int64_t> strides(tensor.getRank(), ShapedType::kDynamic);
  strides.back() = 1;
  return MemRefType::get(
      tensor.getShape(), tensor.getElementType(),
      StridedLayoutAttr::get(tensor.getContext(), 0, strides));
}

ArgumentAttr TileBuilder::describe(StringRef name, StringRef direction,
                                   Type dtype, ArrayRef<StringRef> names,
                                   std::optional<int64_t> last) {
  SmallVector<Attribute> dims;
  for (StringRef n : names)
    dims.push_back(b.getStringAttr(n));
  if (last)
    dims.push_back(b.getI64IntegerAttr(*last));
  return ArgumentAttr::get(b.getContext(), name, direction,
                           b.getArrayAttr(dims), dtype, FloatAttr(),
                           StringAttr());
}

ArgumentAttr TileBuilder::describeScale(int64_t headDim, bool divides) {
  return ArgumentAttr::get(
      b.getContext(), "scale", "in", b.getArrayAttr({}), b.getF32Type(),
      b.getF64FloatAttr(1.0 / std::sqrt(double(headDim))),
      b.getStringAttr(divides ? "invertible" : "positive_finite"));
}

void TileBuilder::addDropout(SmallVectorImpl<Type> &types,
                             SmallVectorImpl<Attribute> &args) {
  types.push_back(b.getF32Type());
  args.push_back(ArgumentAttr::get(b.getContext(), "dropout", "in",
                                   b.getArrayAttr({}), b.getF32Type(),
                                   FloatAttr(), b.getStringAttr("finite")));
  types.push_back(MemRefType::get(
      {4}, b.getI32Type(),
      StridedLayoutAttr::get(b.getContext(), 0, {ShapedType::kDynamic})));
  args.push_back(describe("rng", "in", b.getI32Type(), {}, 4));
}

void TileBuilder::addExtras(const ScoreProgram &program,
                            SmallVectorImpl<Type> &types,
                            SmallVectorImpl<Attribute> &args) {
  for (size_t i = 0; i < program.numExtras(); ++i) {
    Type type = program.extraType(i);
    if (auto tensor = dyn_cast<RankedTensorType>(type)) {
      // Read one by one, so that any strides will do.
      SmallVector<int64_t> strides(tensor.getRank(), ShapedType::kDynamic);
      type = MemRefType::get(
          tensor.getShape(), tensor.getElementType(),
          StridedLayoutAttr::get(tensor.getContext(), 0, strides));
    }
    types.push_back(type);
    args.push_back(program.describeExtra(i));
  }
}

void TileBuilder::addExtraGradients(const ScoreProgram &program,
                                    ArrayRef<int64_t> grads, TypeRange results,
                                    SmallVectorImpl<Type> &types,
                                    SmallVectorImpl<Attribute> &args) {
  for (auto [i, result] : llvm::zip_equal(grads, results)) {
    auto type = cast<RankedTensorType>(result);
    Type element = type.getElementType();
    ArrayRef<int64_t> shape = type.getShape();
    types.push_back(MemRefType::get(
        shape, element,
        StridedLayoutAttr::get(
            b.getContext(), 0,
            SmallVector<int64_t>(shape.size(), ShapedType::kDynamic))));
    SmallVector<Attribute> dims(program.describeExtra(i).getDims().getValue());
    dims.resize(shape.size());
    for (auto [dim, extent] : llvm::zip_equal(dims, shape))
      if (!ShapedType::isDynamic(extent))
        dim = b.getI64IntegerAttr(extent);
    args.push_back(ArgumentAttr::get(
        b.getContext(), "d" + program.extraName(i), "out", b.getArrayAttr(dims),
        element, FloatAttr(), StringAttr(), /*broadcast=*/element.isF32()));
  }
}

Value TileBuilder::splat(ArrayRef<int64_t> shape, float v) {
  auto type = RankedTensorType::get(shape, b.getF32Type());
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, v));
}

Value TileBuilder::view(Value source, Value batch, Value head, Value offset,
                        Value length, int64_t heads, SumOrderAttr order) {
  auto type = cast<MemRefType>(source.getType());
  int64_t cols = type.getRank() == 4 ? type.getDimSize(3) : 0;
  return ViewOp::create(
      b, loc,
      ViewType::get(b.getContext(), cols, type.getElementType(), heads, order),
      source, batch, head, offset, length);
}

GuardedVariants::GuardedVariants(ArrayRef<VariantAttr> variants) {
  for (VariantAttr variant : variants) {
    std::string own = variant.getWhen().getExpression().str();
    when.push_back(otherwise.empty()
                       ? own
                       : (otherwise + " && (").append(own).append(")"));
    otherwise.append(otherwise.empty() ? "!(" : " && !(")
        .append(own)
        .append(")");
  }
}

FailureOr<func::FuncOp> fa2::functionOf(Operation *op, ArrayRef<Value> inputs,
                                        StringRef inputNames) {
  auto func = op->getParentOfType<func::FuncOp>();
  if (!func || !llvm::hasSingleElement(func.getBody()) ||
      func.getBody().front().getOperations().size() != 2 ||
      !llvm::equal(func.getBody().front().getTerminator()->getOperands(),
                   op->getResults()))
    return op->emitOpError()
           << "expected to be all of a function that returns its results, "
              "because the function becomes the kernel";
  if (!llvm::equal(inputs, func.getArguments()))
    return op->emitOpError()
           << "expected the function's arguments to be " << inputNames
           << ", scale, sink, dropout, rng and extras, in this order";
  return func;
}
