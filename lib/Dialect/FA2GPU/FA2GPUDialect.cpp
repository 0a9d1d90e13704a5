//===- FA2GPUDialect.cpp - the fa2gpu dialect, its attributes and types ---===//

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

#include "fa2/Dialect/FA2GPU/FA2GPUDialect.cpp.inc"
#include "fa2/Dialect/FA2GPU/FA2GPUEnums.cpp.inc"
#include "fa2/Dialect/FA2GPU/FA2GPUInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "fa2/Dialect/FA2GPU/FA2GPUAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "fa2/Dialect/FA2GPU/FA2GPUTypes.cpp.inc"

namespace {
/// Short names for layouts in printed IR.
struct LayoutAliases : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (auto acc = dyn_cast<AccAttr>(attr)) {
      os << "acc";
      return AliasResult::OverridableAlias;
    }
    if (isa<OperandAttr>(attr)) {
      os << "operand";
      return AliasResult::OverridableAlias;
    }
    if (auto row = dyn_cast<RowAttr>(attr)) {
      os << (row.getPartial() == Partial::None ? "row" : "partial_row");
      return AliasResult::OverridableAlias;
    }
    if (isa<ColumnAttr>(attr)) {
      os << "column";
      return AliasResult::OverridableAlias;
    }
    if (isa<SharedAttr>(attr)) {
      os << "shared";
      return AliasResult::OverridableAlias;
    }
    return AliasResult::NoAlias;
  }
};
} // namespace

void FA2GPUDialect::initialize() {
  addInterfaces<LayoutAliases>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fa2/Dialect/FA2GPU/FA2GPUAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "fa2/Dialect/FA2GPU/FA2GPUTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fa2/Dialect/FA2GPU/FA2GPUOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// mma.sync m16n8k16: PTX ISA, "Matrix Fragments for mma.m16n8k16"
//===----------------------------------------------------------------------===//

// c[i], i = 0..3: row = lane / 4 + 8 (i / 2), col = 2 (lane % 4) + i % 2
Fragment MmaSyncAttr::accumulator() const {
  return {16, 8, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {{0, 1}, {8, 0}}};
}

// a[i], i = 0..7: row = lane / 4 + 8 (i / 2 % 2),
//                 col = 2 (lane % 4) + i % 2 + 8 (i / 4)
Fragment MmaSyncAttr::operandA() const {
  return {16,
          16,
          {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}},
          {{0, 1}, {8, 0}, {0, 8}}};
}

// b[i], i = 0..3: row (k) = 2 (lane % 4) + i % 2 + 8 (i / 2), col (n) = lane /
// 4
Fragment MmaSyncAttr::operandB() const {
  return {16, 8, {{2, 0}, {4, 0}, {0, 1}, {0, 2}, {0, 4}}, {{1, 0}, {8, 0}}};
}

int64_t MmaSyncAttr::warpsPerInstruction() const { return 1; }
std::string MmaSyncAttr::checkProduct(RankedTensorType, RankedTensorType,
                                      RankedTensorType, bool, bool) const {
  return "";
}

//===----------------------------------------------------------------------===//
// wgmma: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16"
//===----------------------------------------------------------------------===//

// A warp's share has the fragments of mma.sync.
Fragment WgmmaAttr::accumulator() const {
  return MmaSyncAttr::get(getContext()).accumulator();
}
Fragment WgmmaAttr::operandA() const {
  return MmaSyncAttr::get(getContext()).operandA();
}
Fragment WgmmaAttr::operandB() const {
  return MmaSyncAttr::get(getContext()).operandB();
}
int64_t WgmmaAttr::warpsPerInstruction() const { return 4; }

/// PTX ISA, "Asynchronous Warpgroup Level Matrix Shape", and what the
/// descriptors of 128-byte swizzled tiles can say.
std::string WgmmaAttr::checkProduct(RankedTensorType a, RankedTensorType b,
                                    RankedTensorType d, bool transposeA,
                                    bool transposeB) const {
  constexpr int64_t rows = 64, stepK = 16, panel = 128, panelCols = 64;
  auto acc = cast<AccAttr>(d.getEncoding());
  int64_t down = acc.getGroups()[0], across = acc.getGroups()[1];
  if (d.getDimSize(0) != rows * down)
    return llvm::formatv("{0} rows a warpgroup, {1} in all, got {2}", rows,
                         rows * down, d.getDimSize(0));
  int64_t cols = d.getDimSize(1), part = cols / across;
  int64_t unit = across == 1 ? 8 : 16; // columnsPerPart
  if (cols % across != 0 || part % unit != 0 || part > 256)
    return llvm::formatv("a multiple of {0} columns up to 256 a warpgroup, got "
                         "{1} over {2}",
                         unit, cols, across);
  if (across > 1 && !transposeB && part != 32 && part % panelCols != 0)
    return llvm::formatv("32 columns a warpgroup, or a multiple of {0}, "
                         "because they begin in a panel of b, got {1}",
                         panelCols, part);
  for (RankedTensorType tile : {a, b}) {
    auto shared = dyn_cast_or_null<SharedAttr>(tile.getEncoding());
    if (shared && shared.getPanel() != panel)
      return llvm::formatv("tiles in panels of {0} bytes in shared memory, got "
                           "{1}",
                           panel, tile);
  }
  auto reducesRows = [&](RankedTensorType tile) {
    return tile.getDimSize(0) % stepK != 0;
  };
  if ((transposeA && reducesRows(a)) || (!transposeB && reducesRows(b)))
    return llvm::formatv("a reduced dimension in steps of {0}, got {1}", stepK,
                         b.getDimSize(transposeB ? 1 : 0));
  return "";
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

LogicalResult AccAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                              MatmulFamilyAttr family, ArrayRef<int64_t> groups,
                              int64_t splitK) {
  if (groups.size() != 2 || groups[0] < 1 || groups[1] < 1)
    return emitError() << "constraint 1: expected groups = [down, across], "
                          "each at least 1, got ["
                       << groups << "]";
  if (splitK < 1 || (splitK > 1 && family.warpsPerInstruction() > 1))
    return emitError() << "constraint 2: expected split_k at least 1, and 1 of "
                       << family << ", got " << splitK;
  return success();
}

TileLayout AccAttr::tileLayout(ArrayRef<int64_t> shape) const {
  return TileLayout(getFamily().accumulator(), shape[0], shape[1], warpRows(),
                    warpCols(), getFamily().warpsPerInstruction());
}

TileLayout OperandAttr::tileLayout(ArrayRef<int64_t> shape) const {
  AccAttr acc = getAcc();
  return TileLayout(acc.getFamily().operandA(), shape[0], shape[1],
                    acc.warpRows(), acc.warpCols(),
                    acc.getFamily().warpsPerInstruction());
}

SharedLayout fa2::gpu::sharedLayout(RankedTensorType tile) {
  auto shared = dyn_cast_or_null<SharedAttr>(tile.getEncoding());
  // A vector is one row, which nothing swizzles.
  int64_t rows = tile.getRank() == 1 ? 1 : tile.getDimSize(0);
  int64_t cols = tile.getShape().back();
  int64_t bytes = tile.getElementTypeBitWidth() / 8;
  if (shared && shared.getParts() > 1)
    return SharedLayout::splitBy(shared.getParts(), rows, cols, bytes);
  return SharedLayout(rows, cols, bytes, shared ? shared.getPanel() : 0);
}

RankedTensorType fa2::gpu::sharedTile(RankedTensorType tile, int64_t parts) {
  auto with = [&](int64_t n) {
    return RankedTensorType::get(tile.getShape(), tile.getElementType(),
                                 SharedAttr::get(tile.getContext(), 0, n));
  };
  bool plain = parts == 1 || sharedLayout(with(1)).canSplitColumns(parts);
  return with(plain ? 1 : parts);
}

bool fa2::gpu::isQueue(RingCreateOp ring) {
  return llvm::any_of(ring->getUsers(), llvm::IsaPred<TileLoopOp>);
}

int64_t fa2::gpu::slotPitch(RingCreateOp ring) {
  RingType type = ring.getRing().getType();
  return isQueue(ring) ? kQueueSlotBytes : sharedLayout(type.getTile()).pitch();
}

int64_t fa2::gpu::ringBytes(RingCreateOp ring) {
  return slotPitch(ring) * ring.getRing().getType().getSlots();
}

int64_t fa2::gpu::barrierBytes(RingCreateOp ring) {
  RingType type = ring.getRing().getType();
  return 2 * kBarrierBytes * type.getSlots() * type.getParts();
}
