//===- Lowering.cpp - shared by the patterns of fa2gpu to NVVM ------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <functional>

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;

Value Emit::i32(int64_t v) {
  return arith::ConstantIntOp::create(b, loc, v, 32);
}
Value Emit::i64(int64_t v) {
  return arith::ConstantIntOp::create(b, loc, v, 64);
}
Value Emit::f32(float v) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(v));
}
Value Emit::index(int64_t v) {
  return arith::ConstantIndexOp::create(b, loc, v);
}

static Value constantLike(Emit &e, Value x, int64_t c) {
  return arith::ConstantOp::create(e.b, e.loc,
                                   IntegerAttr::get(x.getType(), c));
}

Value Emit::add(Value x, Value y) {
  return b.createOrFold<arith::AddIOp>(loc, x, y);
}
Value Emit::add(Value x, int64_t c) {
  return c == 0 ? x : add(x, constantLike(*this, x, c));
}
Value Emit::sub(Value x, Value y) {
  return b.createOrFold<arith::SubIOp>(loc, x, y);
}
Value Emit::mul(Value x, Value y) {
  return b.createOrFold<arith::MulIOp>(loc, x, y);
}
Value Emit::mul(Value x, int64_t c) {
  return c == 1 ? x : mul(x, constantLike(*this, x, c));
}
Value Emit::bitAnd(Value x, int64_t c) {
  return b.createOrFold<arith::AndIOp>(loc, x, constantLike(*this, x, c));
}
Value Emit::bitXor(Value x, Value y) {
  return b.createOrFold<arith::XOrIOp>(loc, x, y);
}
Value Emit::bitXor(Value x, int64_t c) {
  return c == 0 ? x : bitXor(x, constantLike(*this, x, c));
}
Value Emit::shl(Value x, int64_t c) {
  if (c == 0)
    return x;
  return b.createOrFold<arith::ShLIOp>(loc, x, constantLike(*this, x, c));
}
Value Emit::shr(Value x, int64_t c) {
  if (c == 0)
    return x;
  return b.createOrFold<arith::ShRUIOp>(loc, x, constantLike(*this, x, c));
}
Value Emit::divU(Value x, Value y) {
  return b.createOrFold<arith::DivUIOp>(loc, x, y);
}
Value Emit::remU(Value x, Value y) {
  return b.createOrFold<arith::RemUIOp>(loc, x, y);
}
Value Emit::both(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return b.createOrFold<arith::AndIOp>(loc, x, y);
}
Value Emit::less(Value x, Value y) {
  return b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, x, y);
}
Value Emit::below(Value x, Value y) {
  return b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::ult, x, y);
}
Value Emit::select(Value c, Value x, Value y) {
  return arith::SelectOp::create(b, loc, c, x, y);
}
Value Emit::toI32(Value x) {
  return b.createOrFold<arith::IndexCastOp>(loc, b.getI32Type(), x);
}
Value Emit::toIndex(Value x) {
  return b.createOrFold<arith::IndexCastOp>(loc, b.getIndexType(), x);
}
Value Emit::toI64(Value x) {
  return b.createOrFold<arith::IndexCastOp>(loc, b.getI64Type(), x);
}

Value Emit::fmul(Value x, Value y) {
  return arith::MulFOp::create(b, loc, x, y);
}
Value Emit::fadd(Value x, Value y) {
  return arith::AddFOp::create(b, loc, x, y);
}
Value Emit::fsub(Value x, Value y) {
  return arith::SubFOp::create(b, loc, x, y);
}
Value Emit::fneg(Value x) { return arith::NegFOp::create(b, loc, x); }
Value Emit::fma(Value x, Value y, Value z) {
  return LLVM::FMAOp::create(b, loc, x, y, z);
}
// max.f32: a NaN loses against a number, as in the maximum of a row.
Value Emit::fmax(Value x, Value y) {
  return LLVM::MaxNumOp::create(b, loc, x, y);
}
Value Emit::fmin(Value x, Value y) {
  return LLVM::MinNumOp::create(b, loc, x, y);
}

static Value intrinsic(Emit &e, StringRef name, Type type, ValueRange args) {
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, type,
                                       e.b.getStringAttr(name), args)
      .getResult(0);
}
Value Emit::ex2(Value x) {
  return intrinsic(*this, "llvm.nvvm.ex2.approx.ftz", b.getF32Type(), x);
}
// A float of 1.5 2^23 has a step of 1: adding it rounds x to a whole number n,
// which then is in the lowest bits. 2^x = 2^n 2^f, -1/2 <= f <= 1/2, and 2^f is
// a polynomial: that of least relative error among those that are 1 at 0. Of
// -127 the bits of 2^n are those of 0, of 128 those of infinity. It is a
// factor, since NaN would be lost if n were added to the polynomial's exponent.
Value Emit::ex2ByPolynomial(Value x) {
  constexpr float kCoefficients[] = {0.69312419f, 0.24024099f, 0.05590643f,
                                     0.00958285f};
  Type i32 = b.getI32Type();
  x = arith::MaximumFOp::create(b, loc, x, f32(-127));
  x = arith::MinimumFOp::create(b, loc, x, f32(128));
  Value magic = f32(0x1.8p23f);
  Value shifted = fadd(x, magic);
  Value f = fsub(x, fsub(shifted, magic));
  Value p = f32(kCoefficients[3]);
  for (int i = 2; i >= 0; --i)
    p = fma(p, f, f32(kCoefficients[i]));
  p = fma(p, f, f32(1));
  Value exponent = shl(LLVM::BitcastOp::create(b, loc, i32, shifted), 23);
  Value bits = add(exponent, llvm::bit_cast<int32_t>(1.0f));
  return fmul(p, LLVM::BitcastOp::create(b, loc, b.getF32Type(), bits));
}
Value Emit::permute(Value x, Value y, Value selector) {
  return intrinsic(*this, "llvm.nvvm.prmt", b.getI32Type(), {x, y, selector});
}
Value Emit::lg2(Value x) {
  return intrinsic(*this, "llvm.nvvm.lg2.approx.f", b.getF32Type(), x);
}
Value Emit::rcp(Value x) {
  return intrinsic(*this, "llvm.nvvm.rcp.approx.ftz.f", b.getF32Type(), x);
}
Value Emit::pack(Value lo, Value hi, Type dtype) {
  auto pair = VectorType::get({2}, dtype);
  Value v = intrinsic(*this,
                      dtype.isBF16() ? "llvm.nvvm.ff2bf16x2.rn"
                                     : "llvm.nvvm.ff2f16x2.rn",
                      pair, {hi, lo});
  return LLVM::BitcastOp::create(b, loc, b.getI32Type(), v);
}

Value Emit::threadInBlock() {
  if (ownThread)
    return ownThread;
  return toI32(mlir::gpu::ThreadIdOp::create(b, loc, mlir::gpu::Dimension::x));
}
Value Emit::thread() { return add(threadInBlock(), -firstWarp() * kWarpLanes); }
Value Emit::hidden(Value v) {
  Value copy = toI32(v);
  return toIndex(LLVM::InlineAsmOp::create(
                     b, loc, copy.getType(), copy, "mov.b32 $0, $1;", "=r,r",
                     /*has_side_effects=*/true, /*is_align_stack=*/false,
                     LLVM::TailCallKind::None, LLVM::AsmDialectAttr{},
                     ArrayAttr{})
                     .getResult(0));
}
void Emit::readThreadAnew() {
  // Side effects keep it from being merged with other reads.
  ownThread = LLVM::InlineAsmOp::create(
                  b, loc, b.getI32Type(), ValueRange{}, "mov.u32 $0, %tid.x;",
                  "=r", /*has_side_effects=*/true, /*is_align_stack=*/false,
                  LLVM::TailCallKind::None, LLVM::AsmDialectAttr{}, ArrayAttr{})
                  .getResult(0);
}
Value Emit::lane() { return bitAnd(threadInBlock(), kWarpLanes - 1); }
Value Emit::warp() { return shr(thread(), 5); }
Value Emit::uniformWarp() {
  Operation *at = b.getInsertionBlock()->getParentOp();
  auto func = dyn_cast<mlir::gpu::GPUFuncOp>(at);
  if (!func)
    func = at->getParentOfType<mlir::gpu::GPUFuncOp>();
  Value warp = *func.getBody().front().getOps<NVVM::ShflOp>().begin();
  return add(warp, -firstWarp());
}
/// The role whose program `b` builds; null outside of roles.
static std::pair<RolesOp, unsigned> roleAt(OpBuilder &b) {
  Region *region = b.getInsertionBlock()->getParent();
  while (region && !isa<RolesOp>(region->getParentOp()))
    region = region->getParentRegion();
  if (!region)
    return {};
  return {cast<RolesOp>(region->getParentOp()), region->getRegionNumber()};
}
int64_t Emit::firstWarp() {
  auto [roles, role] = roleAt(b);
  return roles ? roles.getFirstWarp(role) : 0;
}
constexpr StringLiteral kOneThread = "one_thread";

void fa2::gpu::onOneThread(Emit &e, function_ref<void()> body) {
  auto [roles, role] = roleAt(e.b);
  if (!roles || roles.getOneThread()[role])
    return body();
  auto isFirst = [&] {
    return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                                 e.uniformWarp(), e.i32(0));
  };
  OpBuilder::InsertionGuard guard(e.b);
  auto warp = scf::IfOp::create(e.b, e.loc, isFirst());
  warp->setAttr(kOneThread, e.b.getUnitAttr());
  e.b.setInsertionPointToStart(warp.thenBlock());
  auto one = scf::IfOp::create(e.b, e.loc, e.elect());
  // The warp goes on together: matmuls ask for all of its lanes.
  NVVM::SyncWarpOp::create(e.b, e.loc, e.i32(-1));
  e.b.setInsertionPointToStart(one.thenBlock());
  body();
}

/// What one thread does, in a branch that onOneThread made.
static Block *workOfOneThread(Operation *op) {
  auto warp = dyn_cast_or_null<scf::IfOp>(op);
  if (!warp || !warp->hasAttr(kOneThread))
    return nullptr;
  return (*warp.thenBlock()->getOps<scf::IfOp>().begin()).thenBlock();
}

void fa2::gpu::mergeOneThreads(Operation *root) {
  root->walk([](Block *block) {
    Operation *before = nullptr; // a branch with nothing but numbers behind it
    for (Operation &op : llvm::make_early_inc_range(*block)) {
      Block *work = workOfOneThread(&op), *into = workOfOneThread(before);
      if (!work) {
        if (before && isPure(&op) && !op.hasTrait<OpTrait::IsTerminator>())
          op.moveBefore(before);
        else
          before = nullptr;
        continue;
      }
      if (!into) {
        before = &op;
        continue;
      }
      auto &ops = work->getOperations();
      into->getOperations().splice(into->getTerminator()->getIterator(), ops,
                                   ops.begin(),
                                   work->getTerminator()->getIterator());
      op.erase();
    }
  });
}

Value Emit::elect() {
  return NVVM::ElectSyncOp::create(b, loc, b.getI1Type(), Value());
}

static Value inlinePtx(Emit &e, StringRef text, Type result,
                       const std::string &constraints, ValueRange operands) {
  SmallVector<Type> types;
  if (result)
    types.push_back(result);
  auto op = LLVM::InlineAsmOp::create(
      e.b, e.loc, types, operands, e.b.getStringAttr(text),
      e.b.getStringAttr(constraints), /*has_side_effects=*/e.b.getUnitAttr(),
      /*is_align_stack=*/UnitAttr(),
      LLVM::TailCallKindAttr::get(e.b.getContext(), LLVM::TailCallKind::None),
      LLVM::AsmDialectAttr{}, ArrayAttr{});
  return result ? op.getResult(0) : Value();
}
Value Emit::instruction(Type type, StringRef text, StringRef constraints,
                        ValueRange operands) {
  return LLVM::InlineAsmOp::create(
             b, loc, type, operands, text, constraints,
             /*has_side_effects=*/false, /*is_align_stack=*/false,
             LLVM::TailCallKind::None, LLVM::AsmDialectAttr{}, ArrayAttr{})
      .getResult(0);
}
void Emit::ptx(StringRef text, StringRef constraints, ValueRange operands) {
  std::string all = constraints.str();
  all += all.empty() ? "~{memory}" : ",~{memory}";
  inlinePtx(*this, text, Type(), all, operands);
}
/// What `createpolicy.fractional.L2::evict_*.b64 policy, 1.0` gives, as CUTLASS
/// has it (cute/arch/copy_sm90_desc.hpp, TMA::CacheHintSm90): ptxas makes a
/// policy anew wherever it is used, in six instructions.
Value Emit::cachePolicy(CacheHint hint) {
  return i64(hint == CacheHint::EvictLast ? 0x14F0000000000000
                                          : 0x12F0000000000000);
}
static SmallVector<Value> unpack(Emit &e, Value result, int64_t count) {
  if (count == 1)
    return {result};
  SmallVector<Value> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, result, i));
  return values;
}
static Type resultsOf(Emit &e, int64_t count) {
  SmallVector<Type> types(count, e.b.getF32Type());
  return LLVM::LLVMStructType::getLiteral(e.b.getContext(), types);
}
SmallVector<Value> Emit::ptxDefining(StringRef text, int64_t count,
                                     StringRef constraints,
                                     ValueRange operands) {
  std::string all;
  for (int64_t i = 0; i < count; ++i)
    all += "=f,";
  all += constraints;
  all += constraints.empty() ? "~{memory}" : ",~{memory}";
  return unpack(*this,
                inlinePtx(*this, text, resultsOf(*this, count), all, operands),
                count);
}
Value Emit::copyOf(Value v) {
  return LLVM::InlineAsmOp::create(
             b, loc, b.getF32Type(), v, "mov.f32 $0, $1;", "=f,f",
             /*has_side_effects=*/true, /*is_align_stack=*/false,
             LLVM::TailCallKind::None, LLVM::AsmDialectAttr{}, ArrayAttr{})
      .getResult(0);
}
SmallVector<Value> Emit::ptxUpdating(StringRef text, ValueRange tied,
                                     StringRef constraints,
                                     ValueRange operands) {
  std::string all;
  int64_t count = tied.size();
  for (int64_t i = 0; i < count; ++i)
    all += "=f,";
  for (int64_t i = 0; i < count; ++i)
    all += std::to_string(i) + ",";
  all += constraints;
  all += constraints.empty() ? "~{memory}" : ",~{memory}";
  SmallVector<Value> inputs(tied);
  llvm::append_range(inputs, operands);
  return unpack(*this,
                inlinePtx(*this, text, resultsOf(*this, count), all, inputs),
                count);
}

Value Emit::shuffleXor(Value f, int64_t mask) {
  return NVVM::ShflOp::create(b, loc, f.getType(), i32(-1), f, i32(mask),
                              i32(31), NVVM::ShflKind::bfly, UnitAttr{});
}
Value Emit::shuffleFrom(Value f, Value lane) {
  return NVVM::ShflOp::create(b, loc, f.getType(), i32(-1), f, lane, i32(31),
                              NVVM::ShflKind::idx, UnitAttr{});
}
Value Emit::sameInWarp(Value x) {
  return NVVM::ShflOp::create(b, loc, x.getType(), i32(-1), x, i32(0), i32(31),
                              NVVM::ShflKind::idx, UnitAttr{});
}
Value Emit::voteAny(Value p) {
  return NVVM::VoteSyncOp::create(b, loc, b.getI1Type(), i32(-1), p,
                                  NVVM::VoteSyncKind::any);
}

LLVM::LLVMPointerType Emit::pointer(AddressSpace space) {
  return LLVM::LLVMPointerType::get(b.getContext(), space);
}
Value Emit::gep(Value p, Value bytes) {
  return LLVM::GEPOp::create(b, loc, p.getType(), b.getI8Type(), p,
                             ArrayRef<LLVM::GEPArg>{bytes});
}
Value Emit::gep(Value p, int64_t bytes) {
  if (bytes == 0)
    return p;
  return LLVM::GEPOp::create(b, loc, p.getType(), b.getI8Type(), p,
                             ArrayRef<LLVM::GEPArg>{int32_t(bytes)});
}
Value Emit::sharedPointer(Value address) {
  return LLVM::IntToPtrOp::create(b, loc, pointer(kShared), address);
}

Value fa2::gpu::together(Emit &e, ValueRange values) {
  if (values.size() == 1)
    return values.front();
  Value all = LLVM::UndefOp::create(
      e.b, e.loc,
      VectorType::get({int64_t(values.size())}, values.front().getType()));
  for (auto [i, v] : llvm::enumerate(values))
    all = LLVM::InsertElementOp::create(e.b, e.loc, all, v, e.i32(int64_t(i)));
  return all;
}

int64_t fa2::gpu::threadsOf(Operation *op) {
  if (auto roles = op->getParentOfType<RolesOp>())
    return roles.getWarps()[roles.getRoleOf(op)] * kWarpLanes;
  auto func = op->getParentOfType<mlir::gpu::GPUFuncOp>();
  return (*func.getKnownBlockSize())[0];
}

ColumnStart::ColumnStart(Emit &e, const SharedLayout &layout, Columns columns)
    : panel(e.i32(0)), byte(e.i32(0)) {
  const SharedLayout::Panel &first = layout.panels().front();
  int64_t wide = first.bytes / layout.elementBytes();
  if (layout.panels().size() > 1)
    panel = e.mul(e.shr(columns.first, llvm::Log2_64(wide)),
                  layout.rows() * first.bytes);
  if (columns.count < wide)
    byte = e.mul(e.bitAnd(columns.first, wide - 1), layout.elementBytes());
}

int64_t fa2::gpu::numStrides(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  bool known = succeeded(type.getStridesAndOffset(strides, offset));
  return type.getRank() - (known && strides.back() == 1);
}

ViewParts fa2::gpu::viewAnew(Emit &e, Value view, ValueRange parts) {
  auto op = view.getDefiningOp<ViewOp>();
  if (!op ||
      !e.b.getInsertionBlock()->getParentOp()->getParentOfType<RolesOp>())
    return ViewParts::from(parts);
  IRMapping copies;
  for (Value index : {op.getBatch(), op.getHead()})
    copies.map(index, e.hidden(index));
  std::function<Value(Value)> copyOf = [&](Value v) -> Value {
    Operation *def = v.getDefiningOp();
    if (copies.contains(v) || !def || def->getNumRegions() > 0)
      return copies.lookupOrDefault(v);
    bool depends = false;
    for (Value operand : def->getOperands())
      depends |= copyOf(operand) != operand;
    if (depends && isPure(def))
      e.b.clone(*def, copies);
    else
      copies.map(v, v);
    return copies.lookup(v);
  };
  return ViewParts::from(llvm::map_to_vector(parts, copyOf));
}

TileLayout fa2::gpu::layoutOf(Value tile) {
  auto type = cast<RankedTensorType>(tile.getType());
  return distributedLayout(type).tileLayout(type.getShape());
}

MemRefParts::MemRefParts(MemRefType type, ValueRange parts) : base(parts[0]) {
  size_t next = 1;
  for (int64_t d = 0; d < type.getRank(); ++d)
    extents.push_back(type.isDynamicDim(d) ? parts[next++] : Value());
  llvm::append_range(strides, parts.drop_front(next));
}

TileLayout fa2::gpu::columnLayout(ColumnAttr column, RankedTensorType vector) {
  AccAttr acc = column.getAcc();
  return acc.tileLayout({acc.warpRows(), vector.getDimSize(0)});
}

TileLayout fa2::gpu::rowLayout(RowAttr row, RankedTensorType vector) {
  return row.getAcc().tileLayout({vector.getDimSize(0), 8});
}

int64_t fa2::gpu::rowOfSlot(const TileLayout &layout, int64_t slot) {
  for (int64_t r = 0;; ++r)
    if (layout.rowSlot(r) == slot)
      return layout.at(0, 0, r).row;
}

int64_t fa2::gpu::colOfSlot(const TileLayout &layout, int64_t slot) {
  for (int64_t r = 0;; ++r)
    if (layout.colSlot(r) == slot)
      return layout.at(0, 0, r).col;
}

DistributedLayoutAttr fa2::gpu::distributedLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<DistributedLayoutAttr>(tensor.getEncoding())
                : DistributedLayoutAttr();
}

/// The sum of the basis coordinates of the lane's set bits.
static Value laneSum(Emit &e, const TileLayout &layout,
                     int64_t Coord::*component) {
  Value lane = e.lane(), sum = e.i32(0);
  const auto &bits = layout.fragment().laneBits;
  // Runs of bits that double from one to the next are one shifted field.
  for (size_t i = 0; i < bits.size();) {
    int64_t unit = bits[i].*component;
    size_t n = 1;
    while (unit != 0 && i + n < bits.size() &&
           bits[i + n].*component == unit << n)
      ++n;
    if (unit != 0) {
      Value field = e.bitAnd(e.shr(lane, i), (int64_t(1) << n) - 1);
      sum = e.add(sum, e.mul(field, unit));
    }
    i += n;
  }
  return sum;
}

Value fa2::gpu::warpRow(Emit &e, const TileLayout &layout) {
  if (layout.warpGridRows() == 1)
    return e.i32(0);
  Value warp = e.warp();
  int64_t stacked = layout.stackedWarps(), across = layout.warpGridCols();
  if (across > 1) {
    Value stack = e.divU(warp, e.i32(stacked * across));
    warp = stacked == 1
               ? stack
               : e.add(e.mul(stack, stacked), e.remU(warp, e.i32(stacked)));
  }
  return e.mul(warp, layout.rowsPerWarp());
}

Value fa2::gpu::warpCol(Emit &e, const TileLayout &layout) {
  if (layout.warpGridCols() == 1)
    return e.i32(0);
  Value warp = e.divU(e.warp(), e.i32(layout.stackedWarps()));
  if (layout.warpGridRows() > layout.stackedWarps())
    warp = e.remU(warp, e.i32(layout.warpGridCols()));
  return e.mul(warp, layout.colsPerWarp());
}

Value fa2::gpu::laneRow(Emit &e, const TileLayout &layout) {
  return e.add(warpRow(e, layout), laneSum(e, layout, &Coord::row));
}

Value fa2::gpu::laneCol(Emit &e, const TileLayout &layout) {
  return e.add(warpCol(e, layout), laneSum(e, layout, &Coord::col));
}

/// Lanes of an accumulator's fragment have 8 rows, and columns 0, 2, 4 and 6;
/// registers have rows and columns a multiple of 8 from there, or one column
/// more: what they need of 8 columns lies from 7 before the first to 7 behind.
DiagonalWindows::DiagonalWindows(DiagonalAttr diagonal, RankedTensorType vector)
    : layout(diagonal.getAcc().tileLayout(
          {diagonal.getRows(),
           vector.getDimSize(0) + 1 - diagonal.getRows()})) {
  first = llvm::divideFloorSigned(8 - layout.rowsPerWarp(), step);
  count = llvm::divideFloorSigned(layout.colsPerWarp() - 8, step) + 1 - first;
}

std::pair<int64_t, int64_t> DiagonalWindows::find(int64_t reg) const {
  Coord at = layout.at(0, 0, reg);
  int64_t diagonal = at.col - at.row,
          window = llvm::divideFloorSigned(diagonal, step);
  return {window - first, diagonal - window * step + before};
}

Value DiagonalWindows::laneDiagonal(Emit &e) const {
  return e.sub(laneSum(e, layout, &Coord::col),
               laneSum(e, layout, &Coord::row));
}

Value fa2::gpu::xorOf(Emit &e, Value row, int64_t panelBytes) {
  return e.bitAnd(e.shr(row, SharedLayout::xorShift(panelBytes)),
                  SharedLayout::xorMask(panelBytes));
}

bool fa2::gpu::mayPrecede(Value row) {
  Operation *op = row.getDefiningOp();
  if (isa_and_nonnull<arith::SubIOp>(op))
    return true;
  return isa_and_nonnull<arith::AddIOp>(op) &&
         llvm::any_of(op->getOperands(), mayPrecede);
}
