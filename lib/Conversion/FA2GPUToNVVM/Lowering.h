//===- Lowering.h - shared by the patterns of fa2gpu to NVVM ----*- C++ -*-===//
#ifndef FA2_LIB_CONVERSION_FA2GPUTONVVM_LOWERING_H
#define FA2_LIB_CONVERSION_FA2GPUTONVVM_LOWERING_H

#include "fa2/Dialect/FA2GPU/FA2GPU.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/DialectConversion.h"

#include <map>
#include <vector>

namespace fa2::gpu {

/// Address spaces of the NVPTX target.
enum AddressSpace : unsigned { kGlobal = 1, kShared = 3 };

/// A few letters for arithmetic on scalars, with constants folded.
class Emit {
public:
  Emit(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}

  mlir::Value i32(int64_t v);
  mlir::Value i64(int64_t v);
  mlir::Value f32(float v);
  mlir::Value index(int64_t v);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, int64_t c);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, int64_t c);
  mlir::Value bitAnd(mlir::Value x, int64_t c);
  mlir::Value bitXor(mlir::Value x, mlir::Value y);
  mlir::Value bitXor(mlir::Value x, int64_t c);
  mlir::Value shl(mlir::Value x, int64_t c);
  mlir::Value shr(mlir::Value x, int64_t c);
  mlir::Value divU(mlir::Value x, mlir::Value y);
  mlir::Value remU(mlir::Value x, mlir::Value y);
  mlir::Value both(mlir::Value x, mlir::Value y);  // either may be null: true
  mlir::Value less(mlir::Value x, mlir::Value y);  // signed
  mlir::Value below(mlir::Value x, mlir::Value y); // unsigned: 0 <= x < y
  mlir::Value select(mlir::Value c, mlir::Value x, mlir::Value y);
  /// prmt.b32: bytes of x (0 to 3) and y (4 to 7), by the selector's nibbles.
  mlir::Value permute(mlir::Value x, mlir::Value y, mlir::Value selector);
  /// index <-> i32 <-> i64
  mlir::Value toI32(mlir::Value index);
  mlir::Value toIndex(mlir::Value i);
  mlir::Value toI64(mlir::Value index);

  mlir::Value fmul(mlir::Value x, mlir::Value y);
  mlir::Value fadd(mlir::Value x, mlir::Value y);
  mlir::Value fsub(mlir::Value x, mlir::Value y);
  mlir::Value fneg(mlir::Value x);
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z);
  mlir::Value fmax(mlir::Value x, mlir::Value y);
  mlir::Value fmin(mlir::Value x, mlir::Value y);
  /// 2^x, log2 x, 1/x by the units of PTX (ex2.approx.ftz and so on).
  mlir::Value ex2(mlir::Value x);
  /// 2^x by multiplications and additions, within 3e-6 of it; as ex2 gives it
  /// for whole numbers, beyond f32's exponents and for NaN.
  mlir::Value ex2ByPolynomial(mlir::Value x);
  mlir::Value lg2(mlir::Value x);
  mlir::Value rcp(mlir::Value x);
  /// Two f32 to a packed pair of `dtype` in an i32; lo is the low half.
  mlir::Value pack(mlir::Value lo, mlir::Value hi, mlir::Type dtype);

  mlir::Value thread(); // i32, in the role, or in the block
  /// From here on, thread() reads its register anew, so that addresses after a
  /// loop have nothing in common with those before it and none lives across it.
  void readThreadAnew();
  /// A copy of an index, in which optimizations see no copy: what is computed
  /// with it is computed here, and no register holds it before.
  mlir::Value hidden(mlir::Value v);
  mlir::Value lane();
  mlir::Value warp();
  mlir::Value shuffleXor(mlir::Value f, int64_t mask);
  /// The value of another lane, each lane from one of its own choice.
  mlir::Value shuffleFrom(mlir::Value f, mlir::Value lane);
  /// An i32 that all lanes have, said to be one value of the warp.
  mlir::Value sameInWarp(mlir::Value x);
  mlir::Value voteAny(mlir::Value predicate);

  /// The warp's number as one value of the whole warp: the kernel begins with
  /// it where roles need it. Warps are counted in their role.
  mlir::Value uniformWarp();
  /// The first warp of the role that is built in.
  int64_t firstWarp();
  /// One thread of the warp, the same each time.
  mlir::Value elect();
  /// Inline PTX whose result depends on its operands alone.
  mlir::Value instruction(mlir::Type type, llvm::StringRef text,
                          llvm::StringRef constraints,
                          mlir::ValueRange operands);
  /// Inline PTX with effects and no result.
  void ptx(llvm::StringRef text, llvm::StringRef constraints,
           mlir::ValueRange operands);
  /// Inline PTX whose `tied` operands, all f32, are updated in place: $0 and on
  /// in the text; the others come after twice as many.
  llvm::SmallVector<mlir::Value> ptxUpdating(llvm::StringRef text,
                                             mlir::ValueRange tied,
                                             llvm::StringRef constraints,
                                             mlir::ValueRange operands);
  /// The same with `count` f32 results that start undefined.
  llvm::SmallVector<mlir::Value> ptxDefining(llvm::StringRef text,
                                             int64_t count,
                                             llvm::StringRef constraints,
                                             mlir::ValueRange operands);

  /// What an access with this hint takes as its last operand. It is made where
  /// it is used, so that no register holds it through a loop.
  mlir::Value cachePolicy(CacheHint hint);

  /// An f32 in a register of its own, from here on.
  mlir::Value copyOf(mlir::Value v);

  mlir::LLVM::LLVMPointerType pointer(AddressSpace space);
  mlir::Value gep(mlir::Value pointer, mlir::Value bytes);
  mlir::Value gep(mlir::Value pointer, int64_t bytes);
  /// The pointer of a 32-bit shared-memory address.
  mlir::Value sharedPointer(mlir::Value address);

  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  mlir::Value threadInBlock();
  mlir::Value ownThread;
};

/// A tile of queries: index along the sequence, head, batch entry.
struct TileCoords {
  mlir::Value tile, head, batch;
};
/// Whether a kernel's blocks take tiles together, in clusters.
bool inCluster(mlir::Operation *op);
/// Whether a tile's first row, an index, is one that may lie before its
/// sequence: where it is computed by a subtraction (of fa2.apply_mask's lead).
bool mayPrecede(mlir::Value row);

/// How many numbers say an order's sections, the last arguments of a kernel:
/// two for each part of the heads, none where no tiles of several heads start
/// side by side.
unsigned numSectionArguments(TileOrder order);

/// What hands out a kernel's tiles, in whatever it stands: the same extents in
/// every role.
struct TileSource {
  mlir::Operation *at;
  llvm::SmallVector<mlir::Value, 3> extents; // rows, heads, batches
  int64_t block;                             // rows of a tile
  TileOrder order;
  bool persistent;
  int64_t cluster; // blocks that take a tile together
};
/// What a launch passes so that a kernel's blocks take `tiles`, an expression
/// of their number, in their order: of a balanced loop how many of the longest
/// start first, then the sections. `extents` names rows, heads and batches.
llvm::SmallVector<std::string>
orderExpressions(KernelOp op, const TileSource &source,
                 llvm::ArrayRef<std::string> extents, const std::string &tiles);

/// The tile of this number (index), of `tiles` a sequence, in a kernel's
/// function.
TileCoords decodeTile(Emit &e, mlir::Value number, mlir::Value tiles,
                      mlir::Value heads, mlir::Value batches, TileOrder order,
                      mlir::gpu::GPUFuncOp func);

/// The name of an argument's extent, or its number.
std::string dimName(ArgumentAttr arg, unsigned dim);

/// Slot and parity of use n of a ring, as i32.
struct RingUse {
  /// With parts, `slot` is the number of the barrier of the slot's part `part`
  /// (by default the one of this warpgroup).
  RingUse(Emit &e, RingType ring, mlir::Value use, mlir::Value part = {});
  mlir::Value slot, barrier, parity;
};
/// A ring as it is lowered.
struct RingParts {
  RingParts(RingType type, mlir::ValueRange parts)
      : type(type), slots(parts[0]), barriers(parts[1]) {}
  mlir::Value full(Emit &e, mlir::Value barrier) const;
  mlir::Value empty(Emit &e, mlir::Value barrier) const;
  RingType type;
  mlir::Value slots, barriers;
};
/// Runs `body` under `condition`, or always when it is null.
template <typename Fn> void when(Emit &e, mlir::Value condition, Fn body) {
  if (!condition)
    return body();
  auto branch = mlir::scf::IfOp::create(e.b, e.loc, condition);
  mlir::OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(branch.thenBlock());
  body();
}

/// mbarrier operations on an i32 address in shared memory. With `ofCluster`
/// another block of the cluster may have ended the phase, whose writes are to
/// be seen.
void barrierWait(Emit &e, mlir::Value barrier, mlir::Value parity,
                 bool ofCluster = false);
void barrierArrive(Emit &e, mlir::Value barrier, mlir::Value predicate = {});
/// The same of a barrier at an address of the cluster (`inBlock`), by who has
/// only read.
void barrierArriveIn(Emit &e, mlir::Value barrier, mlir::Value predicate = {});
/// The same place in the shared memory of the cluster's block of a rank, i32.
mlir::Value inBlock(Emit &e, mlir::Value address, mlir::Value rank);
void barrierExpect(Emit &e, mlir::Value barrier, int64_t bytes);
/// Builds `body` for one thread of the role: it alone, where it runs the role.
/// Branches of one thread that stand side by side become one.
void mergeOneThreads(mlir::Operation *root);
void onOneThread(Emit &e, llvm::function_ref<void()> body);
/// What is left of fa2gpu.roles when its programs have been lowered.
void lowerRoles(RolesOp op, int64_t registersAtEntry);

/// A view as it is lowered: address of row 0, elements from row to row, rows;
/// of several heads also elements from head to head; of any columns, how many.
struct ViewParts {
  mlir::Value base, rowStride, length, headStride, columns;
  static ViewParts from(mlir::ValueRange parts) {
    ViewParts view{parts[0], parts[1], parts[2], {}, {}};
    if (parts.size() > 3)
      (parts[3].getType().isIndex() ? view.columns : view.headStride) =
          parts[3];
    return view;
  }
};
/// The parts of a view, computed once more here from its batch entry and head,
/// so that none of them lives between there and here.
ViewParts viewAnew(Emit &e, mlir::Value view, mlir::ValueRange parts);
/// Elements of an unaligned tile's first chunk (#fa2gpu.shared) before those of
/// row `row` of the view from `column` on (i32).
mlir::Value elementsBefore(Emit &e, const ViewParts &view, mlir::Value row,
                           mlir::Value column, int64_t elementBytes);

/// The row of the sequence, and the head, that row `row` (i32) of a tile of
/// packed heads shows, both from the tile's first.
mlir::Value packedRow(Emit &e, mlir::Value row, int64_t heads);
mlir::Value packedHead(Emit &e, mlir::Value row, int64_t heads);

/// Tiles of 16-bit elements are packed by pairs.
inline bool isPacked(mlir::RankedTensorType t) {
  mlir::Type e = t.getElementType();
  return e.isIntOrFloat() && e.getIntOrFloatBitWidth() == 16;
}

/// One value, or a vector of several.
mlir::Value together(Emit &e, mlir::ValueRange values);

/// Stores a packed tile of 16 bits, which accumulators hold, to the rows of a
/// view. The four lanes of a row have two columns each of every eight. They
/// exchange them, so that each stores eight columns of a row, 16 bytes, and the
/// four a row's 64 bytes together.
void storeElements(Emit &e, mlir::RankedTensorType type,
                   mlir::ValueRange packed, ViewType viewType, ViewParts view,
                   mlir::Value row);

/// Stores its transpose, of which each warp has columns, from a row and a
/// column on: movmatrix turns eight by eight elements in a warp's registers, so
/// that four lanes have eight columns of a row again.
void storeTurned(Emit &e, mlir::RankedTensorType type, mlir::ValueRange packed,
                 ViewParts view, mlir::Value row, mlir::Value column);

/// How the lanes of a block hold a tile in registers.
TileLayout layoutOf(mlir::Value tile);

/// Threads of the block that `op` runs in.
int64_t threadsOf(mlir::Operation *op);

/// Strides that a memref argument is passed with: not that of the last
/// dimension where it is 1.
int64_t numStrides(mlir::MemRefType type);

/// A memref argument as it is lowered: base, dynamic extents, strides.
struct MemRefParts {
  MemRefParts(mlir::MemRefType type, mlir::ValueRange parts);
  mlir::Value base;
  llvm::SmallVector<mlir::Value, 4> extents, strides;
};

/// Of the elements of a tensor, where the words of their exact sums lie: how
/// many first words lie between two along each dimension, and all.
struct ExactPlaces {
  ExactPlaces(Emit &e, mlir::MemRefType type, const MemRefParts &sums);
  llvm::SmallVector<mlir::Value, 4> strides;
  mlir::Value count;
};

/// Elements of a tensor of any strides, by one index a dimension: a value, or
/// one for each of several elements. With `words`, where their exact sums are.
class Elements {
public:
  Elements(Emit &e, mlir::Value memref, mlir::ValueRange parts,
           mlir::ValueRange indices,
           llvm::ArrayRef<mlir::ValueRange> indexParts,
           llvm::ArrayRef<int64_t> clamped = {}, // as in fa2.read
           mlir::Value words = {});
  struct Place {
    mlir::Value address, inside; // null: always
    mlir::Value step; // bytes from word to word of an exact sum; null: an f32
  };
  Place at(size_t element);
  /// The indices that are an element's own, and what lies at any such.
  llvm::SmallVector<mlir::Value> ownOf(size_t element) const;
  Place placeOf(mlir::ValueRange ownIndices);
  /// The first of the elements that were asked about whose indices are the same
  /// values.
  size_t firstLike(size_t element);
  size_t count() const { return number; }

private:
  Emit &e;
  MemRefParts source;
  size_t number = 1;
  mlir::Value base, allInside, step;
  llvm::SmallVector<std::pair<size_t, mlir::ValueRange>> own; // dim, its parts
  std::map<std::vector<void *>, size_t> first;
  size_t along = 0; // of the own indices, the one with the most values
  std::map<std::vector<const void *>, mlir::Value> rows; // without it
  std::map<std::vector<const void *>, std::map<int64_t, mlir::Value>> chains;
  mlir::Value addressOf(mlir::ValueRange ownIndices);
};

/// One reduction a place, where `adds` (null: always), or those of an exact
/// sum. No branch, since matmuls may be in flight.
void reduceInto(Emit &e, Elements::Place place, mlir::Value adds,
                mlir::Value x);
/// Adds what a warp has of each diagonal of a tile to its place, which depends
/// on the diagonal alone. False where the layout is not a matmul's of enough
/// columns: then nothing is done.
bool addDiagonals(Emit &e, Elements &elements, const TileLayout &layout,
                  mlir::ValueRange values);

/// How a warp's lanes hold a value a diagonal (FA2GPUAttrs.td, `diagonal`).
struct DiagonalWindows {
  static constexpr int64_t step = 16, before = 8;
  DiagonalWindows(DiagonalAttr diagonal, mlir::RankedTensorType vector);
  /// The window, and the place in it for a lane of row and column 0, that has
  /// what a register of the tile needs.
  std::pair<int64_t, int64_t> find(int64_t reg) const;
  /// A lane's column less its row, in its warp's part of the tile.
  mlir::Value laneDiagonal(Emit &e) const;

  TileLayout layout; // of the tile
  int64_t first, count;
};

/// Of a tile whose columns are a vector's: row 0 has each slot's column.
TileLayout columnLayout(ColumnAttr column, mlir::RankedTensorType vector);
/// Of a tile whose rows are a vector's.
TileLayout rowLayout(RowAttr row, mlir::RankedTensorType vector);
/// The row or column, from the thread's first, of this slot's elements.
int64_t rowOfSlot(const TileLayout &layout, int64_t slot);
int64_t colOfSlot(const TileLayout &layout, int64_t slot);

/// The encoding of a tile in registers, or null.
DistributedLayoutAttr distributedLayout(mlir::Type type);

/// Runs `body` in the warps that are to store a tile: all of them, or the first
/// one when every warp holds the whole result (split_k).
template <typename Fn> void inStoringWarps(Emit &e, AccAttr acc, Fn body) {
  if (acc.getSplitK() == 1)
    return body();
  mlir::Value first = e.b.createOrFold<mlir::arith::CmpIOp>(
      e.loc, mlir::arith::CmpIPredicate::eq, e.warp(), e.i32(0));
  auto branch = mlir::scf::IfOp::create(e.b, e.loc, first);
  mlir::OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPointToStart(branch.thenBlock());
  body();
}

/// The row of each row slot of a thread, as an i32: the layout's lane and
/// warp part plus that of the register. And the same for the lane's column.
mlir::Value laneRow(Emit &e, const TileLayout &layout);
mlir::Value laneCol(Emit &e, const TileLayout &layout);
/// The first row or column of this warp's part (i32).
mlir::Value warpRow(Emit &e, const TileLayout &layout);
mlir::Value warpCol(Emit &e, const TileLayout &layout);

/// SharedLayout::xorOf of a row that is not known here (i32).
mlir::Value xorOf(Emit &e, mlir::Value row, int64_t panelBytes);
/// A run of columns of a shared tile whose start is known at run time: a
/// multiple of `count`, as SharedLayout::canSplitColumns allows.
struct Columns {
  mlir::Value first;
  int64_t count;
};

/// Where it starts: the bytes up to its panel, and its byte within a row of
/// that. No smaller column reaches the bits of `byte`: it is added by an xor.
struct ColumnStart {
  ColumnStart(Emit &e, const SharedLayout &layout, Columns columns);
  mlir::Value panel, byte;
};

void populateRowPatterns(mlir::TypeConverter &converter,
                         mlir::RewritePatternSet &patterns);
void populateMemoryPatterns(mlir::TypeConverter &converter,
                            mlir::RewritePatternSet &patterns);
void populateSumPatterns(mlir::TypeConverter &converter,
                         mlir::RewritePatternSet &patterns);
void populateCopyPatterns(mlir::TypeConverter &converter,
                          mlir::RewritePatternSet &patterns);
void populateDotPatterns(mlir::TypeConverter &converter,
                         mlir::RewritePatternSet &patterns);
void populateSoftmaxPatterns(mlir::TypeConverter &converter,
                             mlir::RewritePatternSet &patterns);
void populateVectorPatterns(mlir::TypeConverter &converter,
                            mlir::RewritePatternSet &patterns);
void populateReadPatterns(mlir::TypeConverter &converter,
                          mlir::RewritePatternSet &patterns);
void populateScatterPatterns(mlir::TypeConverter &converter,
                             mlir::RewritePatternSet &patterns);
void populateKeepPatterns(mlir::TypeConverter &converter,
                          mlir::RewritePatternSet &patterns);
void populateElementwisePatterns(mlir::TypeConverter &converter,
                                 mlir::RewritePatternSet &patterns);
void populateRolePatterns(mlir::TypeConverter &converter,
                          mlir::RewritePatternSet &patterns);
void populateTensorCopyPatterns(mlir::TypeConverter &converter,
                                mlir::RewritePatternSet &patterns);
void populateWgmmaPatterns(mlir::TypeConverter &converter,
                           mlir::RewritePatternSet &patterns);
void populateKernelPatterns(mlir::TypeConverter &converter,
                            mlir::RewritePatternSet &patterns);

} // namespace fa2::gpu

#endif
