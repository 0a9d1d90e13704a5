//===- FA2Dialect.cpp - the fa2 dialect, its attributes and types ---------===//

#include "fa2/Dialect/FA2/FA2.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fa2;

#include "fa2/Dialect/FA2/FA2Dialect.cpp.inc"
#include "fa2/Dialect/FA2/FA2Enums.cpp.inc"
#include "fa2/Dialect/FA2/FA2Interfaces.cpp.inc"
#include "fa2/Dialect/FA2/FA2OpInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "fa2/Dialect/FA2/FA2Attrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "fa2/Dialect/FA2/FA2Types.cpp.inc"

namespace {
/// Short names for schedules and specifications in printed IR.
struct ScheduleAliases : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (isa<ScheduleAttr>(attr)) {
      os << "schedule";
      return AliasResult::OverridableAlias;
    }
    if (isa<SpecAttr>(attr)) {
      os << "spec";
      return AliasResult::OverridableAlias;
    }
    return AliasResult::NoAlias;
  }
};
} // namespace

void FA2Dialect::initialize() {
  addInterfaces<ScheduleAliases>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fa2/Dialect/FA2/FA2Attrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "fa2/Dialect/FA2/FA2Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fa2/Dialect/FA2/FA2Ops.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

Value MaskAttr::lower(OpBuilder &, Location, Value, Value, Value) const {
  return nullptr;
}

Value MaskAttr::upper(OpBuilder &b, Location loc, Value row, Value seqlenQ,
                      Value seqlenK) const {
  // causal: j <= i + seqlen_k - seqlen_q; causal_top_left: j <= i;
  // strictly_causal: j < i + seqlen_k - seqlen_q.
  Value end = row;
  if (getKind() != MaskKind::StrictlyCausal)
    end = arith::AddIOp::create(b, loc, row,
                                arith::ConstantIndexOp::create(b, loc, 1));
  if (getKind() == MaskKind::CausalTopLeft)
    return end;
  Value shift = arith::SubIOp::create(b, loc, seqlenK, seqlenQ);
  return arith::AddIOp::create(b, loc, end, shift);
}

Value MaskAttr::firstRow(OpBuilder &b, Location loc, Value key, Value seqlenQ,
                         Value seqlenK) const {
  // i + 1 + seqlen_k - seqlen_q > key, or i + 1 > key; strictly_causal:
  // i + seqlen_k - seqlen_q > key
  if (getKind() == MaskKind::CausalTopLeft)
    return key;
  Value shift = arith::SubIOp::create(b, loc, seqlenK, seqlenQ);
  Value row = arith::SubIOp::create(b, loc, key, shift);
  if (getKind() != MaskKind::StrictlyCausal)
    return row;
  return arith::AddIOp::create(b, loc, row,
                               arith::ConstantIndexOp::create(b, loc, 1));
}

Value MaskAttr::endRow(OpBuilder &, Location, Value, Value, Value) const {
  return nullptr;
}

StringRef MaskAttr::getSpecName() const { return stringifyMaskKind(getKind()); }

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

LogicalResult ArgumentAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringRef name, StringRef direction,
                                   ArrayAttr dims, Type dtype,
                                   FloatAttr defaultValue, StringAttr require,
                                   bool broadcast) {
  if (direction != "in" && direction != "out" && direction != "inout" &&
      direction != "workspace")
    return emitError() << "expected " << name
                       << " to be in, out, inout or workspace, got "
                       << direction;
  if (broadcast && ((direction != "in" && direction != "out") || dims.empty()))
    return emitError() << "expected " << name
                       << " to be a tensor of direction in or out because it "
                          "is broadcast";
  bool f32Scalar = dims.empty() && dtype.isF32();
  if ((defaultValue || require) && !f32Scalar)
    return emitError() << "expected " << name
                       << " to be an f32 scalar because it has a default or a "
                          "requirement, got "
                       << dims << " x " << dtype;
  if (require && require.getValue() != "positive_finite" &&
      require.getValue() != "invertible" && require.getValue() != "finite")
    return emitError() << "expected " << name
                       << " to require positive_finite, invertible or finite, "
                          "got "
                       << require;
  return success();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

bool KernelOp::followsOthersRows() {
  ArrayAttr parts = getPartsAttr();
  return parts && llvm::any_of(parts.getAsRange<RowsAttr>(),
                               [](RowsAttr rows) { return !rows.areFirst(); });
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

Type ViewType::parse(AsmParser &p) {
  int64_t cols = 0, heads = 1;
  Type element;
  if (p.parseLess())
    return {};
  auto at = p.getCurrentLocation();
  auto hasHeads = p.parseOptionalInteger(heads);
  if (hasHeads.has_value() &&
      (failed(*hasHeads) || p.parseKeyword("heads") || p.parseComma()))
    return {};
  if (p.parseQuestion() || p.parseKeyword("x"))
    return {};
  auto hasCols = p.parseOptionalInteger(cols);
  if (!hasCols.has_value() && succeeded(p.parseOptionalQuestion())) {
    cols = ShapedType::kDynamic;
    hasCols = ParseResult(success());
  }
  if (hasCols.has_value() && (failed(*hasCols) || p.parseKeyword("x")))
    return {};
  SumOrderAttr order;
  if (p.parseType(element) ||
      (succeeded(p.parseOptionalComma()) &&
       (p.parseKeyword("order") || p.parseEqual() ||
        p.parseCustomAttributeWithFallback(order))) ||
      p.parseGreater())
    return {};
  return ViewType::getChecked([&] { return p.emitError(at); }, p.getContext(),
                              cols, element, heads, order);
}

LogicalResult ViewType::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t cols, Type element, int64_t heads,
                               SumOrderAttr order) {
  if (!isPackedHeads(heads))
    return emitError() << "expected heads to be a power of two from 1 to "
                       << kGroupRows << ", got " << heads;
  if (order && (!element.isF32() || cols <= 0 || heads != 1))
    return emitError()
           << "expected columns of f32 of one head because the view "
              "has an order, got "
           << element;
  if (ShapedType::isDynamic(cols) && heads != 1)
    return emitError() << "expected one head because the view has any number "
                          "of columns, got "
                       << heads;
  return success();
}

LogicalResult WarpGridAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t down, int64_t across, int64_t sums) {
  if (down >= 1 && across >= 1 && sums >= 1)
    return success();
  return emitError() << "expected at least one warp down, across and for each "
                        "sum, got "
                     << down << " x " << across << ", sums = " << sums;
}

LogicalResult SumOrderAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   WarpGridAttr warps, int64_t width) {
  if (warps.getSums() != 1)
    return emitError() << "expected warps that share one sum, got " << warps;
  if (width == 1 || width == 4)
    return success();
  return emitError() << "expected width to be 1 or 4, got " << width;
}

void ViewType::print(AsmPrinter &p) const {
  p << "<";
  if (getHeads() != 1)
    p << getHeads() << " heads, ";
  p << "? x ";
  if (hasAnyColumns())
    p << "? x ";
  else if (getCols() != 0)
    p << getCols() << " x ";
  p << getElementType();
  if (getOrder()) {
    p << ", order = ";
    p.printStrippedAttrOrType(getOrder());
  }
  p << ">";
}
