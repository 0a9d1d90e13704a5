//===- FA2GPUDialect.cpp - the fa2gpu dialect, its attributes and types ---===//

#include "KnownConversions.h"

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

#include "fa2/Dialect/FA2GPU/FA2GPUDialect.cpp.inc"
#include "fa2/Dialect/FA2GPU/FA2GPUEnums.cpp.inc"
#include "fa2/Dialect/FA2GPU/FA2GPUInterfaces.cpp.inc"

/// A plan's roles: `[#fa2gpu.role<...>, ...]`.
static ParseResult parseRoles(AsmParser &p, SmallVector<RoleAttr> &roles) {
  return p.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return p.parseAttribute(roles.emplace_back());
  });
}
static void printRoles(AsmPrinter &p, ArrayRef<RoleAttr> roles) {
  p << '[';
  llvm::interleaveComma(roles, p);
  p << ']';
}

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
    if (isa<DiagonalAttr>(attr)) {
      os << "diagonal";
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
  addInterfaces<LayoutAliases, KnownConversions>();
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
int64_t MmaSyncAttr::panelColumns() const { return 0; }
std::string MmaSyncAttr::checkProduct(RankedTensorType, RankedTensorType,
                                      RankedTensorType, bool, bool) const {
  return "";
}

//===----------------------------------------------------------------------===//
// Rows by lanes
//===----------------------------------------------------------------------===//

Fragment LanesAttr::accumulator() const {
  return {32, 1, {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}}, {}};
}
Fragment LanesAttr::operandA() const { return accumulator(); }
Fragment LanesAttr::operandB() const { return accumulator(); }
int64_t LanesAttr::warpsPerInstruction() const { return 1; }
int64_t LanesAttr::panelColumns() const { return 0; }
std::string LanesAttr::checkProduct(RankedTensorType, RankedTensorType,
                                    RankedTensorType, bool, bool) const {
  return "expected instructions that multiply, got those of lanes";
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
int64_t WgmmaAttr::panelColumns() const { return 64; }

/// PTX ISA, "Asynchronous Warpgroup Level Matrix Shape", and what the
/// descriptors of 128-byte swizzled tiles can say.
std::string WgmmaAttr::checkProduct(RankedTensorType a, RankedTensorType b,
                                    RankedTensorType d, bool transposeA,
                                    bool transposeB) const {
  constexpr int64_t rows = 64, stepK = 16, panel = 128;
  auto acc = cast<AccAttr>(d.getEncoding());
  int64_t down = acc.getGroups()[0], across = acc.getGroups()[1];
  if (d.getDimSize(0) != rows * down)
    return llvm::formatv("{0} rows a warpgroup, {1} in all, got {2}", rows,
                         rows * down, d.getDimSize(0));
  int64_t cols = d.getDimSize(1);
  int64_t part = columnsPerPart(cols, across, panelColumns());
  if (part % 8 != 0 || part > 256)
    return llvm::formatv("a multiple of 8 columns up to 256 a warpgroup, got "
                         "{0} over {1}",
                         cols, across);
  // The padding of the last part is read too.
  int64_t there = transposeB ? b.getDimSize(0) : sharedLayout(b).paddedCols();
  if (across > 1 && part * across > there)
    return llvm::formatv("{0} columns of b for {1} warpgroups, {2} each, got "
                         "{3}",
                         part * across, across, part, there);
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

LogicalResult OrderAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringRef products, int64_t inFlight) {
  SmallVector<StringRef> names;
  products.split(names, ' ');
  SmallVector<StringRef> begun;
  while (!names.empty() && names.front().consume_front("(")) {
    if (!names.front().consume_back(")"))
      return emitError() << "expected a bracket behind " << names.front();
    begun.push_back(names.front());
    names.erase(names.begin());
  }
  llvm::StringSet<> seen;
  for (StringRef name : names) {
    name.consume_back("+");
    name.consume_back("'");
    if (name.empty() || !seen.insert(name).second)
      return emitError() << "expected names of products with a blank between "
                            "them, each once, got \""
                         << products << "\"";
  }
  for (StringRef name : begun)
    if (!llvm::is_contained(names, name))
      return emitError() << "expected " << name
                         << ", which begins early, to be a product of this "
                            "tile, got \""
                         << products << "\"";
  if (names.size() < 2 || inFlight < 1)
    return emitError() << "expected two products or more, and one in flight or "
                          "more, got \""
                       << products << "\" and " << inFlight;
  return success();
}

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
                    warpCols(), getFamily().warpsPerInstruction(),
                    getFamily().panelColumns());
}

TileLayout OperandAttr::tileLayout(ArrayRef<int64_t> shape) const {
  AccAttr acc = getAcc();
  return TileLayout(acc.getFamily().operandA(), shape[0], shape[1],
                    acc.warpRows(), getWhole() ? 1 : acc.warpCols(),
                    acc.getFamily().warpsPerInstruction(),
                    acc.getFamily().panelColumns());
}

SharedLayout fa2::gpu::sharedLayout(RankedTensorType tile) {
  auto shared = dyn_cast_or_null<SharedAttr>(tile.getEncoding());
  // A vector is one row, which nothing swizzles.
  int64_t rows = tile.getRank() == 1 ? 1 : tile.getDimSize(0);
  int64_t cols = tile.getShape().back();
  int64_t bytes = tile.getElementTypeBitWidth() / 8;
  int64_t panel = shared ? shared.getPanel() : 0;
  if (shared && shared.getUnaligned())
    return SharedLayout::ofUnaligned(rows, cols, bytes);
  if (shared && shared.getParts() > 1)
    return SharedLayout::splitBy(shared.getParts(), rows, cols, bytes, panel);
  return SharedLayout(rows, cols, bytes, panel);
}

RankedTensorType fa2::gpu::sharedTile(RankedTensorType tile, int64_t parts,
                                      int64_t panel) {
  auto with = [&](int64_t n) {
    return RankedTensorType::get(tile.getShape(), tile.getElementType(),
                                 SharedAttr::get(tile.getContext(), panel, n));
  };
  SharedLayout plain = sharedLayout(with(1)), split = sharedLayout(with(parts));
  bool same = plain.paddedCols() == split.paddedCols() &&
              plain.panels().size() == split.panels().size();
  return with(same ? 1 : parts);
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
