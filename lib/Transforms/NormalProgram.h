//===- NormalProgram.h - a score program as kernels compute it --*- C++ -*-===//
#ifndef FA2_LIB_TRANSFORMS_NORMALPROGRAM_H
#define FA2_LIB_TRANSFORMS_NORMALPROGRAM_H

#include "ScoreProgram.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/OwningOpRef.h"

namespace fa2 {

/// A copy of a forward operation's program whose score is q.k, without the
/// scale, which is one argument more behind the extras. Its result r, times
/// `scale`, is what the softmax takes the exponentials of, but for terms that
/// all scores of a row share: these leave out as it is and are added to lse.
///
///     x = scale r + row
///
/// Powers of two cost least, so that r is in their unit: the factor log2(e)
/// goes down to what is computed seldom. Only of scores as they are, and of a
/// bounded function (c tanh), is the last factor left to the softmax. A program
/// loses no range by that but for the last half power of two.
class NormalProgram {
public:
  explicit NormalProgram(AttentionOp op);
  /// Of a gradient's operation, for backward, where lse has what all scores of
  /// a row share, so that
  ///
  ///     P = exp(scale r + row - lse)
  ///
  /// in natural units. With `preload`, where the program is a sum of the score
  /// and of what does not depend on it, products of scores begin with the
  /// latter (`start`), and r is the score. Derivatives are those of before.
  NormalProgram(AttentionGradOp op, bool preload);

  ScoreProgram program() {
    if (auto forward = llvm::dyn_cast<AttentionOp>(*copy))
      return programOf(forward);
    return programOf(llvm::cast<AttentionGradOp>(*copy));
  }
  /// What the softmax scales by, where it is not the operation's scale.
  std::optional<float> scale() const { return factor; }
  /// Whether the softmax gets scores as limited as those without a program.
  bool isBounded() const { return bounded; }
  /// What all scores of a row share; null where there is nothing.
  mlir::Value row();
  /// What the program reads, or computes from that, for a key alone, and
  /// scores need: f32 or i32.
  llvm::SmallVector<mlir::Value> columns();
  bool dependsOn(mlir::Value v, ScoreProgram::Argument argument);

  /// Where the result is the score, times the scale and the factor of powers of
  /// two, plus terms of keys, or plus a function of the distance of row and
  /// column, or of the entry of a table at a place that each score has of its
  /// own: which of them.
  enum class Terms { Other, OfKeys, OfDistances, OfEntries };
  Terms terms();
  /// Of such a program: leaves the score as it is for the result, and the
  /// operation's scale to the softmax. Products of scores begin with `start`.
  /// `often`: for each tile again, and so times the scale's inverse.
  void preloadTerms(bool often = false);
  /// The terms over the scale; null where they are added to the score.
  mlir::Value start() { return begins; }
  /// The read of the entry that `start` is made of.
  mlir::tensor::ExtractOp entry() { return entryOf(begins); }
  /// The dimension of the table that has entries.
  unsigned entryDimension();
  /// In its place, the entry whose number is that of the key: `start` is then
  /// that of each entry.
  void takeEntriesForKeys();

private:
  NormalProgram(mlir::Operation *op, unsigned results);
  /// The result, if it is a score with its factor and something besides.
  mlir::math::FmaOp scoreAndTerms();
  /// A term of a sum.
  struct Term {
    mlir::Value value;
    bool negative;
  };

  void collectTerms(mlir::Value v, bool negative,
                    llvm::SmallVectorImpl<Term> &terms);
  mlir::Value sumOf(llvm::ArrayRef<Term> terms);
  /// v c, with the product as far down as it costs least.
  mlir::Value times(mlir::Value v, mlir::Value c);
  /// Whether it is computed for each score.
  bool isTile(mlir::Value v);
  /// The one read through which rows and columns decide a value; null of
  /// others.
  mlir::tensor::ExtractOp entryOf(mlir::Value v);
  void eraseDead();
  /// The result's terms: what all scores of a row share, what those of a column
  /// do, and what differs from score to score.
  struct SortedTerms {
    llvm::SmallVector<Term> rows, columns, others;
  };
  SortedTerms sortedTerms();
  /// `sum`, if there is one, and the term.
  mlir::Value added(mlir::Value sum, Term term);
  /// Of the operation's results the first in place, and behind them what is
  /// there of the row's and of what products begin with.
  void setResults(mlir::Value first, mlir::Value row, mlir::Value start);
  bool takesFactor(mlir::Value v);
  bool leaveFactor(mlir::Value result);
  void invertDivisors();
  void split();
  bool splitGradient(bool preload);
  void foldFactors();
  void fuse();

  mlir::OwningOpRef<mlir::Operation *> copy;
  unsigned results; // of the operation's region
  mlir::OpBuilder b;
  mlir::Location loc;
  std::optional<float> factor;
  bool bounded = false;
  mlir::Value begins;
};

} // namespace fa2

#endif
