//===- GradTiler.h - backward as kernels over tiles -------------*- C++ -*-===//
#ifndef FA2_LIB_TRANSFORMS_GRADTILER_H
#define FA2_LIB_TRANSFORMS_GRADTILER_H

#include "ContributionSums.h"
#include "Dropout.h"
#include "NormalProgram.h"
#include "ProgramTiler.h"
#include "TileBuilder.h"
#include "fa2/Dialect/FA2GPU/Layout.h"
#include "fa2/Schedule/Footprint.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

namespace fa2 {

/// Writes the kernels of one fa2.attention_grad, before its function.
class GradTiler : TileBuilder {
public:
  GradTiler(mlir::func::FuncOp func, AttentionGradOp op)
      : TileBuilder(func), func(func), op(op), schedule(*op.getSchedule()) {
    loc = op.getLoc();
    f32 = b.getF32Type();
  }

  void run();

private:
  /// A kernel of keys, and when it is launched ("": always).
  struct OfKeys {
    std::string suffix, when;
    ScheduleAttr schedule;
  };
  /// Kernels of keys that differ in nothing that the kernels around them see,
  /// and when one of them is launched ("": always).
  struct Alternative {
    int64_t number;
    std::string when;
    llvm::SmallVector<OfKeys> kernels;
  };
  llvm::SmallVector<Alternative> alternativesOf();
  /// All kernels that do the work where one of these is launched.
  void createAlternative(const Alternative &each);
  /// A kernel with the program's arguments, and one block's work in it: tiles
  /// of `block` rows of q or k, or of query heads, or so many blocks for what
  /// has no rows.
  enum RowsOf { Queries, Keys, Heads, Nothing };
  ForEachTileOp createKernel(llvm::StringRef suffix, ScheduleAttr s,
                             RowsOf rowsOf, int64_t block, TileOrder order,
                             int64_t cluster = 1);
  ScheduleAttr plainSchedule();
  /// Those of the gradients of what the program reads.
  llvm::SmallVector<unsigned> gradientsThatAre(GradientForm form);
  /// Of gradients that are sums, those whose bits no order of terms may change,
  /// because dQ's do not: they are summed exactly, in the workspace.
  llvm::SmallVector<unsigned> exactSums();
  /// Rows of so many words of 32 bits that such a sum takes, as an expression:
  /// an extent that stands for all has stride 0.
  static constexpr int64_t kRowOfWords = 256;
  std::string rowsOfWords(unsigned i);
  /// Whose gradient i is.
  size_t extraOf(unsigned i) { return size_t((*op.getGrads())[i]); }
  /// Whether gradient i is summed over a coordinate of the scores.
  bool isSummedOver(unsigned i, ScoreProgram::Argument coordinate) {
    return fa2::isSummedOver(op, i, coordinate);
  }
  /// Of such a gradient's sum the tiles of a batch entry and head, and the row
  /// of the tile of these keys and queries.
  mlir::Value tilesOf(unsigned i, mlir::Value batch, mlir::Value head);
  mlir::Value rowOfTiles(mlir::Value kvBlock, mlir::Value qBlock);
  /// Whether blocks take turns at such a sum, so that the first one stores its
  /// tile and the last rounds the sum: the entries of the batch, in their
  /// order.
  bool addsInTurns(unsigned i) {
    return schedule.getFields().tilesOfSumTurn() > 0 &&
           isSummedOverBatchAlone(op, i);
  }
  ContributionSums::SumTurn turnOfSum(unsigned i, ProgramTiler &program,
                                      mlir::Value batch, mlir::Value head);
  void placeTurn(ContributionSums::SumTurn &turn, mlir::Value kvBlock,
                 mlir::Value qBlock, QRangeOp range);
  ForEachTileOp createKernelOfTiles(unsigned i, llvm::StringRef suffix);
  template <typename Body> void forEachKeyTile(Body body);
  void createZeroTiles(unsigned i);
  void createTurns(unsigned i);
  mlir::Value turnsOfTiles(unsigned i, mlir::Value batch, mlir::Value head);
  mlir::Value viewOfGradient(ProgramTiler &program, unsigned i);
  void createSummed(unsigned i);
  /// From and to which columns nobody stores scores of a tile of queries.
  using ColumnRanges = llvm::SmallVector<std::pair<mlir::Value, mlir::Value>>;
  ColumnRanges hiddenColumns(mlir::Value qBlock, mlir::Value sq,
                             mlir::Value sk);
  void zeroColumns(unsigned i, mlir::Value batch, mlir::Value head,
                   mlir::Value qBlock, mlir::Value sq,
                   const ColumnRanges &columns);
  void createHidden();
  void storeHidden(mlir::Value kvBlock, mlir::Value batch,
                   mlir::Value firstHead, mlir::Value group,
                   mlir::Value queries, mlir::Value keys);
  void createZeros();
  void createRounded();
  void createStatistics();
  void zeroUnseen(mlir::Value tile, mlir::Value head, mlir::Value batch,
                  SequenceOp sequence);
  mlir::Value rowsInside(mlir::Value tile, mlir::Value length);
  void storeSinkSums(mlir::Value tile, mlir::Value head, mlir::Value batch,
                     mlir::Value lse, mlir::Value negDelta);
  void createSinkGradient();
  /// The kernel of keys for the schedule; where it loads tiles of what the
  /// program reads, another beside it, for where nothing can be copied.
  void createKeysOf(llvm::StringRef suffix, llvm::StringRef when);
  void createKeys(llvm::StringRef suffix, llvm::StringRef when);
  void createScaledSum();
  void createQueries();
  /// One pass over the query tiles of one head: dK and dV with its part.
  llvm::SmallVector<mlir::Value> addHead(mlir::Value kTile, mlir::Value vTile,
                                         QRangeOp range, mlir::Value kvBlock,
                                         mlir::Value batch, mlir::Value head,
                                         mlir::ValueRange sums);
  /// Whether blocks start with the last key tile of each head.
  bool keysFall() { return schedule.getOrder() == TileOrder::ShortestFirst; }
  /// Whether those of `head` start with its first one and go through falling
  /// queries, where others do not; null where all heads are alike.
  mlir::Value startsWithFirst(mlir::Value head);
  /// A block's turn to add to a query tile of its range.
  struct Turn {
    mlir::Value number; // of the key tiles whose blocks start before and add
    // Where several tiles share a turn: where its counters are, and whether the
    // block comes to it and leaves it there.
    mlir::Value row, first, last;
  };
  Turn turnOf(mlir::Value qBlock, mlir::Value kvBlock, QRangeOp range);
  /// Whether a tile is the first, and the last, of a block's that share a turn
  /// with it, of whose tiles it has number `place`: as the loop comes to them.
  std::pair<mlir::Value, mlir::Value> endsOfTurn(mlir::Value place,
                                                 int64_t tiles,
                                                 mlir::Value qBlock,
                                                 QRangeOp range);

  /// The tiles of keys that add to a tile of queries that is there.
  KVRangeOp addersTo(mlir::Value qBlock, bool falling, mlir::Value seqlenQ,
                     mlir::Value seqlenK);
  /// Whether the block is the first, and the last, of those that add to a query
  /// tile of its range.
  std::pair<mlir::Value, mlir::Value>
  endsOf(mlir::Value qBlock, mlir::Value kvBlock, QRangeOp range);
  /// The turn of a block where the first opens, the last closes, and the others
  /// add in any order in between: how many must have added before it.
  mlir::Value afterOpened(mlir::Value opens, mlir::Value closes,
                          mlir::Value qBlock, QRangeOp range);
  /// Where a block adds to dQ: its pieces and their sums, whose turn it is,
  /// and, where who adds last rounds them, what it rounds them into.
  struct SumOfGradQ {
    llvm::SmallVector<GradQPiece> pieces;
    llvm::SmallVector<mlir::Value> views, into;
    mlir::Value turns;
  };

  bool scoresBeginWithLse() { return schedule.getPreload() == Preload::Both; }
  mlir::Value arg(size_t i) { return entry->getArgument(i); }
  /// Vectors and sums in the workspace hold whole tiles.
  mlir::Value wholeView(mlir::Value source, mlir::Value batch, mlir::Value head,
                        SumOrderAttr order = {}) {
    int64_t rowsDim =
        mlir::cast<mlir::MemRefType>(source.getType()).getRank() == 4 ? 1 : 2;
    mlir::Value length = mlir::memref::DimOp::create(b, loc, source, rowsDim);
    return view(source, batch, head, constant(0), length, /*heads=*/1, order);
  }
  /// Query heads that read one key head.
  mlir::Value headsOfGroup() {
    mlir::Value heads = mlir::memref::DimOp::create(b, loc, q, 2);
    mlir::Value headsKV = mlir::memref::DimOp::create(b, loc, k, 2);
    return mlir::arith::DivUIOp::create(b, loc, heads, headsKV);
  }
  mlir::Value load(mlir::Value view, mlir::Value row, int64_t rows) {
    auto type = mlir::cast<ViewType>(view.getType());
    llvm::SmallVector<int64_t> shape{rows};
    if (type.getCols())
      shape.push_back(type.getCols());
    return LoadOp::create(
        b, loc, mlir::RankedTensorType::get(shape, type.getElementType()), view,
        row);
  }
  mlir::Value dot(llvm::StringRef name, int64_t rows, int64_t cols,
                  mlir::Value x, mlir::Value y, mlir::Value acc,
                  bool transposeA, bool transposeB, WarpGridAttr over,
                  int64_t held = 0, mlir::StringAttr role = {}) {
    auto dot =
        DotOp::create(b, loc, tile(rows, cols, f32), x, y, acc, transposeB,
                      transposeA, over, b.getStringAttr(name), held);
    dot.setRoleAttr(role);
    return dot;
  }
  /// dV or dK with this tile's part, each program's columns.
  void addTo(llvm::SmallVector<mlir::Value> &sums, llvm::StringRef name,
             int64_t columns, mlir::Value x, mlir::Value y,
             mlir::ValueRange before) {
    for (auto [part, acc] : llvm::zip_equal(columnsOf(columns, name), before)) {
      DotOp product = dot(name, schedule.getBlockKv(), part.count, x, y, acc,
                          false, false, keyWarps(), /*held=*/0, part.role)
                          .getDefiningOp<DotOp>();
      product.setFirstColumn(part.first);
      sums.push_back(product.getD());
    }
  }
  /// What the program of the scores computes, for that of the gradients.
  mlir::Value relayed(mlir::Value tile) {
    return hasTwoPrograms() ? RelayOp::create(b, loc, tile) : tile;
  }
  mlir::Value round(mlir::Value t) {
    auto type = mlir::cast<mlir::RankedTensorType>(t.getType());
    return mlir::arith::TruncFOp::create(
        b, loc, mlir::RankedTensorType::get(type.getShape(), dtype), t);
  }
  mlir::Value scaledBy(mlir::Value x, mlir::Value factor) {
    return mlir::arith::MulFOp::create(
        b, loc, x, mlir::tensor::SplatOp::create(b, loc, x.getType(), factor));
  }
  /// dP, by which P is multiplied next.
  mlir::Value withoutExponentOfP(mlir::Value dp) {
    return exponentOfP ? scaledBy(dp, inverseOfPower()) : dp;
  }
  mlir::Value inverseOfPower() {
    return mlir::arith::ConstantOp::create(
        b, loc, b.getF32FloatAttr(std::ldexp(1.0f, -int(exponentOfP))));
  }
  /// What dQ's and dK's sums are multiplied with, or dV's: the scale, or what
  /// P has too much, and what dropout leaves out of it.
  llvm::SmallVector<mlir::Value> gradFactors(bool scaled) {
    llvm::SmallVector<mlir::Value> factors;
    if (scaled)
      factors.push_back(scale);
    else if (exponentOfP)
      factors.push_back(inverseOfPower());
    if (dropout)
      factors.push_back(dropout->factor());
    return factors;
  }
  /// x times those, rounded, to the rows of an argument.
  void storeScaled(mlir::Value x, bool scaled, mlir::Value to,
                   mlir::Value row) {
    for (mlir::Value factor : gradFactors(scaled))
      x = scaledBy(x, factor);
    StoreOp::create(b, loc, round(x), to, row);
  }
  /// How the warps share what has rows of keys, and dQ, which has queries.
  WarpGridAttr keyWarps() {
    int64_t down = schedule.warpsAlongKeys();
    return warps(down, hasTwoPrograms() ? 1 : schedule.getWarps() / down);
  }
  /// Columns of a product, and whose program multiplies them where warpgroups
  /// have programs of their own.
  struct Columns {
    int64_t first, count;
    mlir::StringAttr role;
  };
  mlir::StringAttr scoresRole() { return roleNamed("scores"); }
  mlir::StringAttr gradientsRole() { return roleNamed("gradients"); }
  mlir::StringAttr roleNamed(llvm::StringRef name) {
    return hasTwoPrograms() ? b.getStringAttr(name) : mlir::StringAttr();
  }
  bool hasTwoPrograms() { return schedule.getFields().hasTwoPrograms(); }
  /// The parts of "dk" or "dv".
  llvm::SmallVector<Columns> columnsOf(int64_t all, llvm::StringRef product) {
    int64_t first = schedule.getRoleColumns();
    if (!first)
      return {{0, all, product == "dv" ? scoresRole() : gradientsRole()}};
    return {{0, first, scoresRole()}, {first, all - first, gradientsRole()}};
  }
  /// Those columns of a tensor's rows in a sequence.
  mlir::Value columnsView(mlir::Value source, const Columns &columns,
                          mlir::Value batch, mlir::Value head,
                          SequenceOp sequence) {
    return ViewOp::create(b, loc,
                          ViewType::get(b.getContext(), columns.count, dtype,
                                        /*heads=*/1, SumOrderAttr()),
                          source, batch, head, sequence.getOffset(),
                          sequence.getLength(), columns.first);
  }
  WarpGridAttr gradQWarps() {
    int64_t down = schedule.warpsAlongGradQ();
    return warps(down, schedule.warpsOfGradQ() / down);
  }
  /// dQ's columns are multiplied and summed piece by piece.
  llvm::SmallVector<GradQPiece> gradQPieces() {
    return fa2::gradQPieces(headDim, schedule.getFields());
  }
  /// The same, of each block of a cluster.
  llvm::SmallVector<Columns> gradQParts() {
    llvm::SmallVector<Columns> parts;
    for (const GradQPiece &piece : gradQPieces())
      for (int64_t rank = 0; rank < schedule.getCluster(); ++rank)
        parts.push_back({piece.first + rank * piece.step, piece.count, {}});
    return parts;
  }
  /// So are its rows, where fewer warps than a tile has rows for multiply them.
  int64_t gradQRows() {
    return schedule.getDqByProducer() ? 16 * schedule.warpsAlongGradQ()
                                      : schedule.getBlockQ();
  }
  mlir::Value partOfSum(mlir::Value batch, mlir::Value head, int64_t first,
                        int64_t count, SumOrderAttr order) {
    mlir::Value length = mlir::memref::DimOp::create(b, loc, dqSum, 1);
    return ViewOp::create(b, loc,
                          ViewType::get(b.getContext(), sumColumnsOfPart(count),
                                        f32, /*heads=*/1, order),
                          dqSum, batch, head, constant(0), length, first);
  }
  /// Whose program multiplies the columns of a piece; null where the plan says.
  mlir::StringAttr roleOf(const GradQPiece &piece) {
    if (!schedule.getRoleColumns())
      return {};
    return piece.first < schedule.getRoleColumns() ? scoresRole()
                                                   : gradientsRole();
  }
  /// How much further on a block's columns of a piece begin; null where it has
  /// all of them.
  mlir::Value columnOf(const GradQPiece &piece) {
    return rank ? times(rank, piece.step) : mlir::Value();
  }
  /// A view whose columns begin so much further on.
  static mlir::Value from(mlir::Value view, mlir::Value column) {
    if (column)
      view.getDefiningOp<ViewOp>().getColumnMutable().assign(column);
    return view;
  }
  /// dQ's products with the keys of a block, and their sums.
  void addGradQ(mlir::Value ds, mlir::Value kTile, QRangeOp range,
                mlir::Value kvBlock, mlir::Value i, const SumOfGradQ &sum,
                llvm::ArrayRef<mlir::Value> wholes);
  /// The columns of a part's sum: what the warps that share rows of dQ hold.
  int64_t sumColumnsOfPart(int64_t count) {
    int64_t across = gradQWarps().getAcross();
    return across * fa2::gpu::columnsPerPart(count, across, panelColumns);
  }
  int64_t sumColumns() {
    Columns last = gradQParts().back();
    return last.first + sumColumnsOfPart(last.count);
  }
  /// Where dQ's sum has which element of a tile; `width` of them are added at
  /// once.
  SumOrderAttr sumOrder(int64_t width) {
    return SumOrderAttr::get(b.getContext(), gradQWarps(), width);
  }
  SumOrderAttr sumOrder() { return sumOrder(sumWidth); }
  /// What dropout keeps of tiles there, where there is dropout.
  mlir::Value keptAt(const ScorePlace &place, mlir::Value columnBlock) {
    if (!dropout)
      return {};
    mlir::Value heads = mlir::memref::DimOp::create(b, loc, q, 2);
    mlir::Value number = mlir::arith::AddIOp::create(
        b, loc, mlir::arith::MulIOp::create(b, loc, place.batch, heads),
        place.head);
    return dropout->keep(place, number, columnBlock);
  }
  mlir::Value keptOf(mlir::Value kept, mlir::Value tile) {
    if (!kept)
      return tile;
    auto type = mlir::cast<mlir::RankedTensorType>(tile.getType());
    return mlir::arith::SelectOp::create(b, loc, kept, tile,
                                         splat(type.getShape(), 0.0f));
  }
  /// The program for tiles there, where the operation has one.
  std::optional<ProgramTiler> programAt(ScorePlace place) {
    if (!normal)
      return std::nullopt;
    llvm::SmallVector<mlir::Value> operands(extras);
    operands.push_back(scale);
    return ProgramTiler(b, loc, normal->program(), operands, place);
  }
  /// q.k through the program, and the program's derivative there; none where
  /// that is 1.
  std::pair<mlir::Value, mlir::Value> applyProgram(ProgramTiler &program,
                                                   mlir::Value s) {
    s = program.atScores(s);
    if (programOf(op).onlyAdds())
      return {s, {}};
    return {s, program.tileOf(normal->program().result(1))};
  }
  mlir::Value startOf(ProgramTiler *program, mlir::Value lse);
  mlir::Value again(mlir::Value slope);
  mlir::Value weighed(mlir::Value p, mlir::Value slope);
  mlir::Value hideColumns(mlir::Value scores, mlir::Value block,
                          mlir::Value length);
  mlir::Value times(mlir::Value x, int64_t c) {
    return mlir::arith::MulIOp::create(b, loc, x, constant(c));
  }

  mlir::func::FuncOp func;
  AttentionGradOp op;
  ScheduleAttr schedule;
  mlir::Type f32, dtype;
  int64_t headDim = 0, headDimV = 0, statRows = 0, panelColumns = 0;
  int64_t sumWidth = 1;    // elements of dQ's sum that are added at once
  int64_t exponentOfP = 0; // of the power of two in P
  const Alternative *alternative = nullptr; // whose kernels are written
  std::optional<NormalProgram> normal;      // and their program
  // The current kernel's.
  mlir::Block *entry = nullptr;
  mlir::Value q, k, v, out, lse, dout, dlse, dq, dk, dv, scale, negLse,
      negDelta, dqSum, turns, sinkSums, sink, dsink;
  // Of GradientForm::Tiles, in order, and whose turn it is to add to them.
  llvm::SmallVector<mlir::Value> tileSums, tileTurns;
  // The tile of keys that a block takes, or takes together with another: then
  // its number, and of the other's keys the panels of each piece of dQ.
  mlir::Value taken, rank;
  llvm::SmallVector<mlir::Value> othersKeys;
  std::optional<Dropout> dropout;
  mlir::Value softmaxScale; // what is left of it for the softmax
  mlir::ValueRange extras, dextras;
  llvm::SmallVector<mlir::Value> exactWords; // of each gradient; null: none
};

} // namespace fa2

#endif
