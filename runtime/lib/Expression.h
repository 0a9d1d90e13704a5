//===- Expression.h - the manifest's expressions ----------------*- C++ -*-===//
//
// The grammar of docs/manifest.md, "Expressions": 64-bit signed integers,
// where an overflow or a division by zero is an error.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RT_LIB_EXPRESSION_H
#define FA2RT_LIB_EXPRESSION_H

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fa2rt {

/// Finds the slot of a name: "batch", "device.multiprocessors",
/// "q.stride[0]". Nothing when there is no such name.
using SlotLookup = std::function<std::optional<uint32_t>(std::string_view)>;

/// The values of the slots; nothing where an argument was left out.
using SlotValues = std::span<const std::optional<int64_t>>;

class Expression {
public:
  /// Throws std::invalid_argument with what is wrong and at which column.
  static Expression parse(std::string_view text, const SlotLookup &lookup);
  static Expression constant(int64_t value);

  /// Throws std::domain_error naming the expression and the fault.
  int64_t evaluate(SlotValues values) const;

  const std::string &text() const { return source; }
  /// The names it reads with their slots, each once, in order of appearance.
  const std::vector<std::pair<std::string, uint32_t>> &names() const {
    return used;
  }

private:
  enum class Kind : uint8_t {
    Constant,
    Slot,
    Negate,
    Not,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    LessEqual,
    GreaterEqual,
    Less,
    Greater,
    And,
    Or,
    Min,
    Max,
    CeilDiv,
    Pow2Floor,
    If
  };
  struct Node {
    Kind kind = Kind::Constant;
    int64_t value = 0; // of a constant; a slot's number
    uint32_t a = 0, b = 0, c = 0;
  };
  class Parser;

  int64_t evaluate(uint32_t node, SlotValues values) const;
  [[noreturn]] void fault(const char *what) const;

  std::string source;
  std::vector<Node> nodes;
  uint32_t root = 0;
  std::vector<std::pair<std::string, uint32_t>> used;
};

} // namespace fa2rt

#endif // FA2RT_LIB_EXPRESSION_H
