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
  // causal: j <= i + seqlen_k - seqlen_q; causal_top_left: j <= i.
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  Value end = arith::AddIOp::create(b, loc, row, one);
  if (getKind() == MaskKind::CausalTopLeft)
    return end;
  Value shift = arith::SubIOp::create(b, loc, seqlenK, seqlenQ);
  return arith::AddIOp::create(b, loc, end, shift);
}

Value MaskAttr::firstRow(OpBuilder &b, Location loc, Value key, Value seqlenQ,
                         Value seqlenK) const {
  // i + 1 + seqlen_k - seqlen_q > key, or i + 1 > key
  if (getKind() == MaskKind::CausalTopLeft)
    return key;
  Value shift = arith::SubIOp::create(b, loc, seqlenK, seqlenQ);
  return arith::SubIOp::create(b, loc, key, shift);
}

Value MaskAttr::endRow(OpBuilder &, Location, Value, Value, Value) const {
  return nullptr;
}

StringRef MaskAttr::getSpecName() const { return stringifyMaskKind(getKind()); }

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

LogicalResult ArgumentAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringRef name, StringRef direction,
                                   ArrayAttr dims, Type dtype,
                                   FloatAttr defaultValue, StringAttr require) {
  if (direction != "in" && direction != "out" && direction != "inout" &&
      direction != "workspace")
    return emitError() << "expected " << name
                       << " to be in, out, inout or workspace, got "
                       << direction;
  bool f32Scalar = dims.empty() && dtype.isF32();
  if ((defaultValue || require) && !f32Scalar)
    return emitError() << "expected " << name
                       << " to be an f32 scalar because it has a default or a "
                          "requirement, got "
                       << dims << " x " << dtype;
  if (require && require.getValue() != "positive_finite" &&
      require.getValue() != "finite")
    return emitError() << "expected " << name
                       << " to require positive_finite or finite, got "
                       << require;
  return success();
}

int64_t fa2::warpsAlongGradQ(int64_t warps, int64_t blockQ, int64_t dqWarps) {
  if (dqWarps != 0)
    return dqWarps;
  int64_t n = warps;
  while (blockQ % (16 * n) != 0 || warps % n != 0)
    --n;
  return n;
}

int64_t ScheduleAttr::warpsAlongGradQ() const {
  return fa2::warpsAlongGradQ(getWarps(), getBlockQ(), getDqWarps());
}

/// Of partition `keys`: scores are [block_kv, block_q] over key_warps x the
/// rest, dQ is [block_q, d] over dq_warps x the rest.
static LogicalResult verifyKeys(function_ref<InFlightDiagnostic()> emitError,
                                int64_t blockQ, int64_t blockKv, int64_t warps,
                                int64_t keyWarps, int64_t dqWarps) {
  for (auto [name, n] :
       {std::pair{"key_warps", keyWarps}, {"dq_warps", dqWarps}})
    if (n < 0 || (n > 0 && warps % n != 0))
      return emitError() << "expected " << name
                         << " to divide warps = " << warps << ", got " << n;
  int64_t along = keyWarps ? keyWarps : warps, across = warps / along;
  if (blockKv % (16 * along) != 0)
    return emitError() << "expected block_kv to be a multiple of 16 * "
                       << (keyWarps ? "key_warps" : "warps") << " = "
                       << 16 * along
                       << " because keys gives each warp whole rows of 16, got "
                       << blockKv;
  if (blockQ % (16 * across) != 0)
    return emitError() << "expected block_q to be a multiple of 16 * warps / "
                          "key_warps = "
                       << 16 * across << ", got " << blockQ;
  if (dqWarps != 0 && blockQ % (16 * dqWarps) != 0)
    return emitError()
           << "expected block_q to be a multiple of 16 * dq_warps = "
           << 16 * dqWarps << ", got " << blockQ;
  if ((blockQ & (blockQ - 1)) != 0)
    return emitError() << "expected block_q to be a power of 2 because dS is "
                          "read transposed, got "
                       << blockQ;
  return success();
}

/// Powers of two that a probability may reach in any element type.
static constexpr int64_t kMaxSlack = 60;

LogicalResult ScheduleAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, StringRef target,
    int64_t blockQ, int64_t blockKv, int64_t warps, int64_t stages,
    Partition partition, bool qInRegisters, int64_t lazyRescale,
    int64_t minBlocks, TileOrder order, bool, bool pingPong, bool persistent,
    bool, bool groupLimits, int64_t speculateMax, int64_t querySlots,
    int64_t packedHeads, int64_t keyWarps, int64_t dqWarps, GradQ) {
  auto multipleOf16 = [&](StringRef field, int64_t value) -> LogicalResult {
    if (value >= 16 && value <= 256 && value % 16 == 0)
      return success();
    return emitError() << "expected " << field
                       << " to be a multiple of 16 from 16 to 256, got "
                       << value;
  };
  if (failed(multipleOf16("block_q", blockQ)) ||
      failed(multipleOf16("block_kv", blockKv)))
    return failure();
  if (warps < 1 || warps > 16)
    return emitError() << "expected warps to be 1 to 16, got " << warps;
  if (stages < 1 || stages > 4)
    return emitError() << "expected stages to be 1 to 4, got " << stages;
  if (lazyRescale < 0 || lazyRescale > kMaxSlack)
    return emitError() << "expected lazy_rescale to be 0 to " << kMaxSlack
                       << ", got " << lazyRescale;
  if (minBlocks < 1 || minBlocks > 8)
    return emitError() << "expected min_blocks to be 1 to 8, got " << minBlocks;
  if (speculateMax < 0 || speculateMax > kMaxSlack)
    return emitError() << "expected speculate_max to be 0 to " << kMaxSlack
                       << ", got " << speculateMax;
  if (querySlots < 1 || querySlots > 2)
    return emitError() << "expected query_slots to be 1 or 2, got "
                       << querySlots;
  if (!isPackedHeads(packedHeads))
    return emitError() << "expected packed_heads to be a power of two from 1 "
                          "to "
                       << kGroupRows << ", got " << packedHeads;
  if (partition == Partition::Keys)
    return verifyKeys(emitError, blockQ, blockKv, warps, keyWarps, dqWarps);
  if (keyWarps != 0 || dqWarps != 0)
    return emitError() << "expected partition keys because key_warps or "
                          "dq_warps is given, got "
                       << stringifyPartition(partition);
  int64_t split = partition == Partition::SplitQ ? blockQ : blockKv;
  if (split % (16 * warps) != 0)
    return emitError() << "expected "
                       << (partition == Partition::SplitQ ? "block_q"
                                                          : "block_kv")
                       << " to be a multiple of 16 * warps = " << 16 * warps
                       << " because " << stringifyPartition(partition)
                       << " gives each warp whole rows of 16, got " << split;
  return success();
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
  if (hasCols.has_value() && (failed(*hasCols) || p.parseKeyword("x")))
    return {};
  if (p.parseType(element) || p.parseGreater())
    return {};
  return ViewType::getChecked([&] { return p.emitError(at); }, p.getContext(),
                              cols, element, heads);
}

LogicalResult ViewType::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t, Type, int64_t heads) {
  if (isPackedHeads(heads))
    return success();
  return emitError() << "expected heads to be a power of two from 1 to "
                     << kGroupRows << ", got " << heads;
}

void ViewType::print(AsmPrinter &p) const {
  p << "<";
  if (getHeads() != 1)
    p << getHeads() << " heads, ";
  p << "? x ";
  if (getCols() != 0)
    p << getCols() << " x ";
  p << getElementType() << ">";
}
