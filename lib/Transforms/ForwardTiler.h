//===- ForwardTiler.h - forward as a kernel over tiles ----------*- C++ -*-===//
#ifndef FA2_LIB_TRANSFORMS_FORWARDTILER_H
#define FA2_LIB_TRANSFORMS_FORWARDTILER_H

#include "Dropout.h"
#include "ForwardProgram.h"
#include "ProgramTiler.h"
#include "TileBuilder.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace fa2 {

/// Writes kernels of one fa2.attention, before its function.
class ForwardTiler : TileBuilder {
public:
  ForwardTiler(mlir::func::FuncOp func, AttentionOp op, ScheduleAttr schedule,
               ForwardProgram &scores,
               ScorePlace::Loads loads = ScorePlace::Loads::None,
               bool loadsTable = false)
      : TileBuilder(func), func(func), op(op), schedule(schedule),
        scores(scores), loads(loads), loadsTable(loadsTable) {
    loc = op.getLoc();
  }

  /// Writes the kernel before the function.
  void run(const llvm::Twine &name, GuardAttr when, mlir::ArrayAttr parts = {});
  /// Before it, the one that computes what keys have of the scores' program.
  void runColumns(const llvm::Twine &name);
  /// And the one that computes what products of scores begin with, for each
  /// distance of column and row, for launches where `when` holds.
  void runDistances(const llvm::Twine &name, GuardAttr when);
  /// Or for each entry of a table.
  void runEntries(const llvm::Twine &name, GuardAttr when);

private:
  void createKernel(const llvm::Twine &name, GuardAttr when,
                    mlir::ArrayAttr parts);
  /// Vectors of the workspace that a kernel before computes.
  void addVectors(llvm::StringRef name, int64_t count,
                  llvm::ArrayRef<std::string> extents,
                  llvm::SmallVectorImpl<mlir::Type> &types,
                  llvm::SmallVectorImpl<mlir::Attribute> &args);
  /// A kernel of the program that computes such vectors, `block` places a
  /// block.
  void createVectors(const llvm::Twine &name, int64_t block,
                     GuardAttr when = {});
  /// Its tiles, with the builder in their body.
  mlir::Block &buildVectors(mlir::Value places, bool byHead, bool byBatch,
                            int64_t block);
  void buildTile(mlir::Value qBlock, mlir::Value head, mlir::Value batch);

  mlir::Value extent(mlir::Value of, int64_t dim) {
    return mlir::memref::DimOp::create(b, loc, of, dim);
  }
  /// batch heads + head
  mlir::Value headNumber(const ScorePlace &place) {
    mlir::Value before =
        mlir::arith::MulIOp::create(b, loc, place.batch, extent(q, 2));
    return mlir::arith::AddIOp::create(b, loc, before, place.head);
  }
  /// A vector of the workspace, [batch or 1, heads or 1, places].
  mlir::Value vectorView(mlir::Value vectors, mlir::Value batch,
                         mlir::Value head, bool byHead, bool byBatch) {
    mlir::Value zero = constant(0), whole = extent(vectors, 2);
    return view(vectors, byBatch ? batch : zero, byHead ? head : zero, zero,
                whole);
  }
  /// What keys have, for the head and batch entry that a block works on.
  mlir::Value columnView(size_t i, mlir::Value batch, mlir::Value head) {
    return vectorView(columns[i], batch, head,
                      scores.columnsDependOn(ScoreProgram::Head),
                      scores.columnsDependOn(ScoreProgram::Batch));
  }
  std::optional<ProgramTiler> programAt(ScorePlace place) {
    if (!scores)
      return std::nullopt;
    return tilerOf(scores->program(), place);
  }
  ProgramTiler tilerOf(ScoreProgram program, ScorePlace place) {
    llvm::SmallVector<mlir::Value> operands(extras);
    operands.push_back(scale);
    return ProgramTiler(b, loc, program, operands, place);
  }
  mlir::Value distanceView(mlir::Value batch, mlir::Value head) {
    return vectorView(distances, batch, head,
                      scores.startDependsOn(ScoreProgram::Head),
                      scores.startDependsOn(ScoreProgram::Batch));
  }
  mlir::Value entryView(mlir::Value batch, mlir::Value head) {
    return vectorView(entries, batch, head,
                      scores.entriesDependOn(ScoreProgram::Head),
                      scores.entriesDependOn(ScoreProgram::Batch));
  }
  /// The place of distance 1.
  mlir::Value distanceRows();
  void loadColumns(ProgramTiler &program, mlir::Value keyBlock, mlir::Value row,
                   ScorePlace place);
  /// The program for keys alone: those of block `keyBlock` of `keys` each.
  std::optional<ProgramTiler> programOfKeys(mlir::Value batch, mlir::Value head,
                                            mlir::Value keyBlock, int64_t keys);
  /// What they have, a vector of f32.
  mlir::Value columnsOf(ProgramTiler &ofKeys, mlir::Value v);
  /// What products begin with, of keys from `row` on; null where they begin
  /// with nothing.
  mlir::Value startOf(ProgramTiler &program, mlir::Value row, ScorePlace place);

  /// The vector that a tile has by distances: loaded, or a role's.
  mlir::Value distancesOf(mlir::Value row, ScorePlace place);

  /// One pass over the key tiles: the final (m, l, o).
  ForTilesOp buildLoop(mlir::Value qTile, ScorePlace place,
                       ProgramTiler *program, Dropout *dropout,
                       mlir::Value kView, mlir::Value vView,
                       mlir::Value seqlenQ, mlir::Value seqlenK);
  int64_t start() const;
  mlir::Value leadOf(mlir::Value length);

  mlir::func::FuncOp func;
  AttentionOp op;
  ScheduleAttr schedule;
  ForwardProgram &scores;
  ScorePlace::Loads loads;
  bool loadsTable; // the entries that products begin with
  // The kernel's arguments.
  mlir::Value q, k, v, out, lse, scale, sink, dropped, rng;
  mlir::Value softmaxScale; // what is left of it for the softmax
  mlir::Value lead; // rows before the sequence that the first tile begins with
  mlir::Value distances; // what products begin with, by distance
  mlir::Value entries;   // or by entry of a table
  mlir::Value table;     // all of them, where they are loaded
  mlir::ValueRange extras, columns;
  int64_t headDim = 0, headDimV = 0;
  mlir::Type dtype;
};

} // namespace fa2

#endif
