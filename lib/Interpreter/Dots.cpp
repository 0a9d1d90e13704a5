//===- Dots.cpp - products of tiles ---------------------------------------===//

#include "Evaluate.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::gpu;
using namespace fa2::interpreter;

/// Element (i, j) of a matrix that may lie transposed.
static float element(const Tile &tile, bool transposed, int64_t i, int64_t j) {
  return tile.real[transposed ? j * tile.cols() + i : i * tile.cols() + j];
}

/// The operand in C order, `rows` x `cols` from a row and a column on.
static std::vector<double> packed(const Tile &tile, bool transposed,
                                  int64_t rows, int64_t cols, int64_t firstRow,
                                  int64_t firstCol) {
  std::vector<double> out(rows * cols);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      out[i * cols + j] = element(tile, transposed, firstRow + i, firstCol + j);
  return out;
}

/// d = a b + acc. Products of 16 bits are exact in float64, and so the sum is
/// rounded once: what any order of f32 sums is close to.
template <typename Dot>
static void multiply(Frame &f, Dot op, RankedTensorType type) {
  TileRef a = f.tile(op.getA()), b = f.tile(op.getB());
  bool updates = op.getAcc() != Value();
  if constexpr (std::is_same_v<Dot, DotStartOp>)
    updates &= !op.getClears();
  auto d =
      updates ? std::make_shared<Tile>(*f.tile(op.getAcc())) : makeTile(type);
  bool ta = op.getTransposeA(), tb = op.getTransposeB();
  int64_t m = d->rows(), n = d->cols(), k = ta ? a->rows() : a->cols();
  int64_t first = op.getFirstColumn() +
                  (op.getColumn() ? f.whole(op.getColumn()) : 0),
          firstRow = op.getFirstRow();
  int64_t depth = tb ? b->cols() : b->rows(),
          width = tb ? b->rows() : b->cols();
  if (firstRow + m > (ta ? a->cols() : a->rows()) || k != depth ||
      first + n > width) {
    f.fail() << "expected operands whose extents fit";
    return;
  }
  std::vector<double> left = packed(*a, ta, m, k, firstRow, 0);
  std::vector<double> right = packed(*b, tb, k, n, 0, first), row(n);
  for (int64_t i = 0; i < m; ++i) {
    std::copy_n(&d->real[i * n], n, row.begin());
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        row[j] += left[i * k + l] * right[l * n + j];
    std::copy_n(row.begin(), n, &d->real[i * n]);
  }
  f.set(op.getD(), Datum(TileRef(d)));
}

void interpreter::run(Frame &f, DotOp op) {
  multiply(f, op, cast<RankedTensorType>(op.getD().getType()));
}

/// It is over at once; what a matmul in flight may not touch, fa2gpu-verify
/// says.
void interpreter::run(Frame &f, DotStartOp op) {
  multiply(f, op, op.getD().getType().getTile());
}

void interpreter::run(Frame &f, DotWaitOp op) {
  f.set(op.getD(), f.get(op.getSource()));
}
