//===- Values.h - what kernels take, and tiles that they give ---*- C++ -*-===//
//
// Plain C++, no MLIR: what the interpreter and those that call it share.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_INTERPRETER_VALUES_H
#define FA2_INTERPRETER_VALUES_H

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fa2::interpreter {

/// What a kernel is given under the name of an argument: a tensor in memory, or
/// a number. Extents are those that the argument is described by; a stride of 0
/// repeats elements.
struct Argument {
  std::string name;
  void *data = nullptr;
  std::vector<int64_t> shape, strides; // elements
  double real = 0;
  int64_t whole = 0;
};

/// A tile or vector, in C order, or a number (no extents). What is no float is
/// held in 64 bits.
struct Tile {
  std::vector<int64_t> shape;
  std::vector<float> real;
  std::vector<int64_t> whole;

  /// Of a matrix; of a vector, a row of so many columns.
  int64_t rows() const { return shape.size() > 1 ? shape[0] : 1; }
  int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  int64_t size() const { return rows() * cols(); }
};
using TileRef = std::shared_ptr<const Tile>;

/// The elements of a tile that are one warpgroup's own: rows and columns from
/// and to. Others may hold anything.
struct Part {
  int64_t rowBegin = 0, rowEnd = INT64_MAX, colBegin = 0, colEnd = INT64_MAX;
  bool holds(int64_t row, int64_t col) const {
    return row >= rowBegin && row < rowEnd && col >= colBegin && col < colEnd;
  }
  Part transposed() const { return {colBegin, colEnd, rowBegin, rowEnd}; }
};

/// Which of for_each_tile's tiles is being computed, and of a cluster of blocks
/// that take it together, by which.
struct Place {
  int64_t tile = 0, head = 0, batch = 0;
  std::optional<int64_t> rank = std::nullopt;
  auto operator<=>(const Place &) const = default;
};

/// A tile that an operation gave, as it happened. `what` names it alike at all
/// stages: dot "s", softmax_step new_m.
struct Event {
  std::string what, where; // where: file, line, column
  Place place;
  int64_t group = 0; // of several warpgroups with programs of their own
  Part part;
  TileRef tile;
};
using Observer = std::function<void(const Event &)>;

} // namespace fa2::interpreter

#endif
