//===- ProgramTiler.h - a score program on tiles ----------------*- C++ -*-===//
#ifndef FA2_TRANSFORMS_PROGRAMTILER_H
#define FA2_TRANSFORMS_PROGRAMTILER_H

#include "ScoreProgram.h"

namespace fa2 {

/// Where tiles of scores are: their rows stay while a loop runs over tiles that
/// lie one after the other along their columns. The rows are queries and the
/// columns keys, or, transposed, the other way round.
struct ScorePlace {
  mlir::Value batch, head;
  mlir::Value rowBlock; // the tile's number along its rows
  int64_t rows, cols;   // its extents
  bool transposed = false;
  int64_t packedHeads = 1; // rows are so many heads' from `head` on
  /// What is loaded as tiles of memory, not read by elements: nothing, tiles
  /// whose rows begin at multiples of 16 bytes, or anywhere.
  enum class Loads { None, Aligned, Unaligned } loads = Loads::None;
  mlir::Value lead = {}; // rows that the first tile begins before the sequence
  mlir::Value row = {};  // of all scores; then columns alone have places
};

/// Of packed heads, which lie in runs of rows, in groups of kGroupRows, the
/// head and the query of each row.
std::pair<mlir::Value, mlir::Value>
packedRows(mlir::OpBuilder &b, mlir::Location loc, const ScorePlace &place);
/// The head of all rows, or a vector of each one's where heads are packed.
inline mlir::Value headsOfRows(mlir::OpBuilder &b, mlir::Location loc,
                               const ScorePlace &place) {
  return place.packedHeads == 1 ? place.head : packedRows(b, loc, place).first;
}

/// Writes a program's operations where what they depend on lets them be: what
/// depends on batch entry and head are scalars, and what depends on the tile's
/// rows besides are vectors, both before the loop; what depends on its columns
/// alone are vectors in the loop; the rest are tiles. Values of columns may
/// also come to the loop from elsewhere, and tiles from memory.
class ProgramTiler {
public:
  /// What a value depends on, besides batch entry and head.
  /// Diagonals is how a tile's values are written that depend on column less
  /// row alone.
  enum Axes : unsigned { None = 0, Rows = 1, Columns = 2, Tile = 3, Diagonals };

  /// `extras` are the kernel's arguments. Writes what stands before the loop.
  ProgramTiler(mlir::OpBuilder &b, mlir::Location loc, ScoreProgram program,
               mlir::ValueRange extras, ScorePlace place);

  /// In the loop, before the scores are known: what depends on columns alone.
  void atColumns(mlir::Value columnBlock);
  /// A vector of f32 for a value of the columns, whose bits it has.
  void useColumns(mlir::Value v, mlir::Value vector) { loaded[v] = vector; }
  /// Before the scores are known too: a tile of a value that does not depend on
  /// them; of one that depends on the distance alone, from the vector of a
  /// value each, if given.
  mlir::Value atStart(mlir::Value v, mlir::Value ofDistances = {});
  /// Then too: the vector's elements in place of those of dimension `dim` that
  /// `read` reads.
  mlir::Value gather(mlir::tensor::ExtractOp read, unsigned dim,
                     mlir::Value vector);
  /// The program's result for scores.
  mlir::Value atScores(mlir::Value scores);
  /// Then: any value as a tile.
  mlir::Value tileOf(mlir::Value v) { return spread(v, Tile); }
  /// A value that depends on the tile's rows alone.
  mlir::Value rowsOf(mlir::Value v) { return spread(v, Rows); }
  Axes axesOf(mlir::Value v) const { return axes.lookup(v); }

  int64_t numRows() const { return place.rows; }
  /// What the region says of the gradients of what it reads.
  llvm::SmallVector<ContributeOp> contributions() const {
    return llvm::to_vector(program.block().getOps<ContributeOp>());
  }
  /// What the place that a contribution goes to depends on.
  Axes placeOf(ContributeOp part) const { return axesOfAll(part.getIndices()); }
  /// Whether the place is the same for all scores whose column is as far from
  /// their row.
  bool byDistance(ContributeOp part) const;
  /// Its slope as a tile, after `atScores`.
  mlir::Value slopeOf(ContributeOp part) { return tileOf(part.getSlope()); }
  /// Before the loop: a view of `whole`, an argument of the extra's rank that
  /// has a place of its own for each score: queries for rows and keys for
  /// columns.
  mlir::Value viewOf(ContributeOp part, mlir::Value whole) {
    return writeView(part.getExtra(), part.getIndices(), whole);
  }
  /// Its indices in `sum`, an argument of the extra's rank.
  llvm::SmallVector<mlir::Value> indicesOf(ContributeOp part, mlir::Value sum);

private:
  void placeArguments();
  void findAxes();
  Axes axesOfAll(mlir::ValueRange values) const;
  /// Writes the steps that have these axes.
  void write(Axes which);
  void write(mlir::Operation &step, Axes which);
  /// The tiles that a value is computed of.
  void writeEarly(mlir::Value v);
  mlir::Value writeRead(mlir::tensor::ExtractOp read, Axes to);
  /// Before the loop: the matrices that its tiles are loaded from.
  void writeViews();
  mlir::Value writeView(mlir::Value extra, mlir::ValueRange indices,
                        mlir::Value source);
  mlir::Value writeIndex(mlir::Value argument, unsigned dim, mlir::Value index,
                         mlir::Value source, Axes to);
  llvm::SmallVector<mlir::Value> writeIndices(mlir::ValueRange indices,
                                              mlir::Value argument,
                                              mlir::Value source, Axes to);
  /// What costs more than a shuffle and depends on the distance alone: such
  /// values are written once a diagonal, and then brought to the tile.
  void findDiagonals();
  /// Whether the tile has it from there.
  bool isBrought(mlir::Value v) const;
  mlir::Value writeStep(mlir::Operation &step, Axes to);
  /// Column less row, where that is what the step computes.
  mlir::Value writeDistance(mlir::Operation &step, Axes to);
  /// The value with other axes: repeated along those that it lacks.
  mlir::Value spread(mlir::Value v, Axes to);
  mlir::Type typeWith(Axes which, mlir::Type element) const;

  mlir::OpBuilder &b;
  mlir::Location loc;
  ScoreProgram program;
  ScorePlace place;
  llvm::DenseMap<mlir::Value, Axes> axes;
  llvm::DenseMap<mlir::Value, mlir::Value> written, loaded;
  llvm::DenseMap<mlir::Value, mlir::Value> views; // by read
  llvm::DenseMap<mlir::Value, mlir::Value> diagonal;
  llvm::DenseSet<mlir::Value> costly, onTile; // onTile: needed by element
  llvm::SetVector<mlir::Operation *> early;   // of a tile, before its scores
  mlir::Value columnBlock;
};

} // namespace fa2

#endif
