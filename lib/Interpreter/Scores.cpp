//===- Scores.cpp - what score programs read and add to -------------------===//

#include "Evaluate.h"
#include "fa2/Dialect/FA2/ExactSum.h"

using namespace mlir;
using namespace fa2;
using namespace fa2::interpreter;

void interpreter::run(Frame &f, PositionsOp op) {
  auto result = makeTile(op.getType());
  int64_t lead = op.getLead() ? f.whole(op.getLead()) : 0,
          first = f.whole(op.getBlock()) * result->size() - lead;
  for (int64_t i = 0; i < result->size(); ++i)
    result->whole[i] = first + i;
  f.set(op.getResult(), Datum(TileRef(result)));
}

void interpreter::run(Frame &f, DistanceOp op) {
  auto result = makeTile(op.getType());
  bool isVector = op.getOf().has_value();
  int64_t rows = isVector ? op.getOf()->front() : result->rows(),
          cols = isVector ? op.getOf()->back() : result->cols();
  int64_t lead = op.getLead() ? f.whole(op.getLead()) : 0,
          first = f.whole(op.getColumnBlock()) * cols -
                  (f.whole(op.getRowBlock()) * rows - lead);
  auto set = [&](int64_t i, int64_t distance) {
    (result->real.empty() ? (void)(result->whole[i] = distance)
                          : (void)(result->real[i] = float(distance)));
  };
  for (int64_t i = 0; i < result->size(); ++i)
    set(i, first + (isVector ? i - (rows - 1) : i % cols - i / cols));
  f.set(op.getResult(), Datum(TileRef(result)));
}

void interpreter::run(Frame &f, ReadOp op) {
  const Memory *source = f.as<const Memory *>(op.getSource());
  SmallVector<TileRef> indices =
      llvm::map_to_vector(op.getIndices(), [&](Value v) { return f.tile(v); });
  auto result = makeTile(op.getType());
  for (int64_t i = 0; i < result->size() && !f.halted(); ++i) {
    auto at = llvm::map_to_vector(indices, [&](const TileRef &index) {
      return index->whole[index->shape.empty() ? 0 : i];
    });
    Element value;
    if (const char *address = source->at(at))
      value = loadElement(source->element, address);
    (result->real.empty() ? (void)(result->whole[i] = value.whole)
                          : (void)(result->real[i] = value.real));
  }
  f.set(op.getResult(), Datum(TileRef(result)));
}

/// Which of an index's numbers is that of element (row, col).
static int64_t numberAt(const Tile &index, const Tile &values, bool columns,
                        int64_t row, int64_t col) {
  if (index.shape.empty())
    return 0;
  if (index.shape.size() == values.shape.size())
    return row * values.cols() + col;
  return columns ? col : row;
}

namespace {
/// Where the words of exact sums lie, an extent of stride 0 counted as 1.
struct ExactSums {
  ExactSums(const Memory &words, const Memory &sums)
      : first(reinterpret_cast<int64_t *>(words.data)), sums(sums) {
    for (auto [extent, stride] : llvm::zip(sums.shape, sums.strides))
      count *= stride == 0 ? 1 : extent;
  }
  int64_t *at(ArrayRef<int64_t> indices) const {
    int64_t number = 0;
    for (auto [index, extent, stride] :
         llvm::zip_equal(indices, sums.shape, sums.strides))
      if (stride != 0)
        number = number * extent + index;
    return first + number;
  }
  int64_t *first, count = 1;
  const Memory &sums;
};
} // namespace

void interpreter::run(Frame &f, ScatterOp op) {
  TileRef values = f.tile(op.getValues());
  const Memory *sum = f.as<const Memory *>(op.getSum());
  SmallVector<TileRef> indices =
      llvm::map_to_vector(op.getIndices(), [&](Value v) { return f.tile(v); });
  Part part = f.part(op.getValues().getType());
  std::optional<ExactSums> exact;
  if (Value words = op.getWords())
    exact.emplace(*f.as<const Memory *>(words), *sum);
  for (int64_t r = 0; r < values->rows() && !f.halted(); ++r)
    for (int64_t c = 0; c < values->cols(); ++c) {
      auto at = llvm::map_to_vector(indices, [&](const TileRef &index) {
        return index->whole[numberAt(*index, *values, op.getColumns(), r, c)];
      });
      char *to = part.holds(r, c) ? sum->at(at) : nullptr;
      if (!to)
        continue;
      float x = values->real[r * values->cols() + c];
      if (exact) {
        addExactly(exact->at(at), exact->count, x);
        continue;
      }
      Element value = loadElement(sum->element, to);
      value.real += x;
      storeElement(sum->element, to, value);
    }
}

/// The indices of each element that is of share `part` of `parts`.
static void forShare(Frame &f, const Memory &memory, Value part, Value parts,
                     llvm::function_ref<void(ArrayRef<int64_t>)> body) {
  int64_t step = f.whole(parts), first = f.whole(part);
  if (f.halted())
    return;
  for (int64_t n = first; n < memory.elements(); n += step) {
    SmallVector<int64_t> at(memory.shape.size());
    for (int64_t d = int64_t(at.size()) - 1, rest = n; d >= 0; --d) {
      at[d] = rest % memory.shape[d];
      rest /= memory.shape[d];
    }
    body(at);
  }
}

void interpreter::run(Frame &f, ZeroOp op) {
  const Memory *sum = f.as<const Memory *>(op.getSum());
  forShare(f, *sum, op.getPart(), op.getParts(), [&](ArrayRef<int64_t> at) {
    storeElement(sum->element, sum->at(at), {});
  });
}

void interpreter::run(Frame &f, RoundSumsOp op) {
  const Memory *sums = f.as<const Memory *>(op.getSums());
  ExactSums exact(*f.as<const Memory *>(op.getWords()), *sums);
  forShare(f, *sums, op.getPart(), op.getParts(), [&](ArrayRef<int64_t> at) {
    storeElement(sums->element, sums->at(at),
                 {roundExact(exact.at(at), exact.count), 0});
  });
}

void interpreter::run(Frame &f, ZeroBoxOp op) {
  const Memory *sum = f.as<const Memory *>(op.getSum());
  auto bounds = [&](ValueRange values) {
    return llvm::map_to_vector(values, [&](Value v) { return f.whole(v); });
  };
  SmallVector<int64_t> from = bounds(op.getFrom()), to = bounds(op.getTo());
  SmallVector<int64_t> at(from);
  auto isLast = [](int64_t next, int64_t end) { return next >= end; };
  if (f.halted() || llvm::any_of(llvm::zip(from, to), [&](auto pair) {
        return isLast(std::get<0>(pair), std::get<1>(pair));
      }))
    return;
  for (int64_t d = 0; d >= 0;) {
    storeElement(sum->element, sum->at(at), {});
    for (d = int64_t(at.size()) - 1; d >= 0 && isLast(++at[d], to[d]); --d)
      at[d] = from[d];
  }
}

void interpreter::run(Frame &f, StoreSumsOp op) {
  TileRef rows = f.tile(op.getRows());
  const Memory *sums = f.as<const Memory *>(op.getSums());
  auto at =
      llvm::map_to_vector(op.getIndices(), [&](Value v) { return f.whole(v); });
  at.push_back(f.whole(op.getFirst()));
  Part part = f.part(op.getRows().getType());
  for (int64_t r = 0; r < rows->size() && !f.halted(); r += 16, ++at.back()) {
    double sum = 0;
    for (int64_t i = 0; i < 16; ++i)
      sum += rows->real[r + i];
    if (char *to = part.holds(0, r) ? sums->at(at) : nullptr)
      storeElement(sums->element, to, {float(sum), 0});
  }
}

void interpreter::run(Frame &f, AddUpOp op) {
  const Memory *parts = f.as<const Memory *>(op.getParts());
  const Memory *sums = f.as<const Memory *>(op.getSums());
  int64_t index = f.whole(op.getIndex());
  if (f.halted())
    return;
  int64_t each = 1;
  for (int64_t extent : llvm::drop_begin(parts->shape))
    each *= extent;
  double sum = 0;
  for (int64_t n = 0; n < each; ++n) {
    SmallVector<int64_t> at(parts->shape.size());
    for (int64_t d = int64_t(at.size()) - 1, rest = n; d > 0; --d) {
      at[d] = rest % parts->shape[d];
      rest /= parts->shape[d];
    }
    at[0] = index;
    sum += loadElement(parts->element, parts->at(at)).real;
  }
  if (char *to = sums->at({index}))
    storeElement(sums->element, to, {float(sum), 0});
}
