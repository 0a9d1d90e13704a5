//===- Guard.cpp - whether a text is a guard, and what it comes to --------===//
//
// The grammar of docs/manifest.md, "Expressions", read; constants are folded,
// so that what has no value in any launch is refused here, and what knows all
// its names has its value.
//
//===----------------------------------------------------------------------===//

#include "fa2/Dialect/FA2/Guard.h"
#include "fa2/Dialect/FA2/FA2.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace fa2;
using llvm::formatv;

namespace {

constexpr StringRef kNames[] = {"batch",
                                "seqlen_q",
                                "seqlen_k",
                                "heads",
                                "heads_kv",
                                "device.multiprocessors",
                                "device.l2_bytes",
                                "device.shared_bytes_per_block",
                                "device.compute_capability"};

/// Recursive descent; the first fault ends it.
class GuardReader {
public:
  explicit GuardReader(StringRef text) : text(text), rest(text) {}
  GuardReader(StringRef text, NumberOf numberOf)
      : numberOf(numberOf), text(text), rest(text) {}

  bool readsBatch() const { return batchRead; }
  bool readsLayouts() const { return layoutsRead; }
  /// Where it is known.
  std::optional<int64_t> result() const { return value; }

  /// What is wrong, or an empty string.
  std::string read() {
    if (binary(0) && !peek().empty())
      fail(formatv("unexpected '{0}'", peek().front()));
    return fault;
  }

private:
  /// Deeper nesting would be refused by launchers.
  static constexpr int kMaxDepth = 100;

  bool fail(const std::string &what) {
    if (fault.empty())
      fault = formatv("{0} at column {1}", what, text.size() - rest.size() + 1);
    return false;
  }
  StringRef peek() { return rest = rest.ltrim(" \t"); }
  bool take(StringRef token) {
    peek();
    return rest.consume_front(token);
  }
  bool expect(StringRef token) {
    return take(token) || fail(formatv("expected '{0}'", token));
  }

  /// Levels: ||, &&, comparisons (at most one), sums, products.
  bool binary(size_t level) {
    // An empty one ends each row.
    static constexpr StringRef operators[5][7] = {
        {"||"},
        {"&&"},
        {"==", "!=", "<=", ">=", "<", ">"},
        {"+", "-"},
        {"*", "/", "%"}};
    if (level == std::size(operators))
      return unary();
    if (!binary(level + 1))
      return false;
    auto next = [&] {
      return *llvm::find_if(operators[level], [&](StringRef token) {
        return token.empty() || take(token);
      });
    };
    constexpr size_t comparisons = 2;
    for (StringRef token; !(token = next()).empty();) {
      std::optional<int64_t> left = value;
      if (!binary(level + 1) || !fold(token, left, value))
        return false;
      if (level == comparisons)
        break;
    }
    return true;
  }

  /// `value` becomes that of `left` and `right`, where it is known.
  bool fold(StringRef token, std::optional<int64_t> left,
            std::optional<int64_t> right) {
    bool divides = token == "/" || token == "%";
    if (divides && right == 0)
      return fail("a division by 0, which has no value,");
    value = std::nullopt;
    if (!left || !right)
      return true;
    constexpr int64_t least = std::numeric_limits<int64_t>::min();
    int64_t result = 0;
    bool overflow = false;
    if (token == "+")
      overflow = llvm::AddOverflow(*left, *right, result);
    else if (token == "-")
      overflow = llvm::SubOverflow(*left, *right, result);
    else if (token == "*")
      overflow = llvm::MulOverflow(*left, *right, result);
    else if (!divides)
      result = compare(token, *left, *right);
    else if (!(overflow = *left == least && *right == -1))
      result = token == "/" ? *left / *right : *left % *right;
    if (overflow)
      return fail("an overflow of 64 bits");
    value = result;
    return true;
  }

  static bool compare(StringRef token, int64_t left, int64_t right) {
    if (token == "||" || token == "&&")
      return token == "||" ? left || right : left && right;
    if (token == "==" || token == "!=")
      return (left == right) == (token == "==");
    bool less = token.front() == '<' ? left < right : left > right;
    return less || (token.size() == 2 && left == right);
  }

  bool unary() {
    if (++depth > kMaxDepth)
      return fail(formatv("nested deeper than {0} levels", kMaxDepth));
    bool good;
    if (take("-"))
      good = unary() && fold("-", 0, value);
    else if (!peek().starts_with("!=") && take("!")) {
      good = unary();
      if (value)
        value = *value == 0;
    } else
      good = atom();
    --depth;
    return good;
  }

  bool atom() {
    if (take("("))
      return binary(0) && expect(")");
    value = std::nullopt;
    StringRef digits = peek().take_while(llvm::isDigit);
    if (!digits.empty()) {
      if (digits.getAsInteger(10, value.emplace()))
        return fail("an integer beyond 2^63 - 1");
      rest = rest.drop_front(digits.size());
      return true;
    }
    StringRef name = rest.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    if (name.empty())
      return fail(
          rest.empty()
              ? "expected a value, got the end"
              : formatv("expected a value, got '{0}'", rest.front()).str());
    if (rest.drop_front(name.size()).ltrim(" \t").starts_with("("))
      return call(name);
    if (numberOf) {
      if (!(value = numberOf(name)))
        return fail(formatv("unknown name '{0}'", name));
      rest = rest.drop_front(name.size());
      return true;
    }
    if (name.ends_with(".stride") && name.size() > 7)
      return stride(name);
    if (name.ends_with(".misalignment") && name.size() > 13) {
      layoutsRead = true;
      rest = rest.drop_front(name.size());
      return true;
    }
    if (isExtent(name)) {
      layoutsRead = true;
      rest = rest.drop_front(name.size());
      return true;
    }
    batchRead |= name == "batch";
    if (!llvm::is_contained(kNames, name))
      return fail(formatv("unknown name '{0}' (known: {1})", name,
                          llvm::join(ArrayRef(kNames), ", ")));
    rest = rest.drop_front(name.size());
    return true;
  }

  /// NAME_N: that of what a program reads, where no coordinate says it.
  static bool isExtent(StringRef name) {
    auto [extra, dim] = name.rsplit('_');
    return !extra.empty() && !dim.empty() && !extra.contains('.') &&
           llvm::all_of(dim, llvm::isDigit);
  }

  /// NAME.stride[N]
  bool stride(StringRef name) {
    layoutsRead = true;
    rest = rest.drop_front(name.size());
    uint64_t dim;
    if (!expect("["))
      return false;
    if (peek().consumeInteger(10, dim))
      return fail("expected the number of a dimension");
    rest = rest.drop_while(llvm::isDigit);
    return expect("]");
  }

  static int64_t callOf(StringRef name, ArrayRef<int64_t> x) {
    if (name == "min" || name == "max")
      return name == "min" ? std::min(x[0], x[1]) : std::max(x[0], x[1]);
    if (name == "ceildiv")
      return x[0] / x[1] + (x[0] % x[1] > 0);
    if (name == "pow2floor")
      return int64_t(llvm::bit_floor(uint64_t(x[0])));
    return x[0] ? x[1] : x[2];
  }

  bool call(StringRef name) {
    static constexpr std::pair<StringRef, int> functions[] = {
        {"min", 2}, {"max", 2}, {"ceildiv", 2}, {"pow2floor", 1}, {"if", 3}};
    for (auto [known, operands] : functions)
      if (name == known) {
        rest = rest.drop_front(name.size());
        llvm::SmallVector<int64_t> known;
        for (int i = 0; i < operands; ++i) {
          if (!expect(i == 0 ? "(" : ",") || !binary(0))
            return false;
          if (value)
            known.push_back(*value);
        }
        // `value` is that of the last operand.
        if (value && ((name == "ceildiv" && *value <= 0) ||
                      (name == "pow2floor" && *value < 1)))
          return fail(formatv("{0} of {1}, which has no value,", name, *value));
        value = std::nullopt;
        if (int(known.size()) == operands)
          value = callOf(name, known);
        return expect(")");
      }
    return fail(formatv("unknown function '{0}' (known: min, max, ceildiv, "
                        "pow2floor, if)",
                        name));
  }

  NumberOf numberOf;
  StringRef text, rest;
  std::string fault;
  /// Of what was read last, where it is known.
  std::optional<int64_t> value;
  int depth = 0;
  bool batchRead = false, layoutsRead = false;
};

} // namespace

std::optional<int64_t> fa2::evaluate(StringRef expression, NumberOf numberOf,
                                     std::string &error) {
  GuardReader reader(expression, numberOf);
  std::string fault = reader.read();
  if (!fault.empty()) {
    error = formatv("expression '{0}': {1}", expression, fault);
    return std::nullopt;
  }
  return reader.result();
}

LogicalResult GuardAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringRef expression) {
  std::string fault = GuardReader(expression).read();
  if (fault.empty())
    return success();
  return emitError() << "guard '" << expression << "': " << fault;
}

bool GuardAttr::readsBatch() const {
  GuardReader reader(getExpression());
  reader.read();
  return reader.readsBatch();
}

bool GuardAttr::readsLayouts() const {
  GuardReader reader(getExpression());
  reader.read();
  return reader.readsLayouts();
}

LogicalResult VariantAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  GuardAttr when, GuardAttr after,
                                  ScheduleAttr) {
  for (GuardAttr guard : {when, after})
    if (guard && guard.readsLayouts())
      return emitError() << "expected a guard of a variant to read no strides, "
                            "addresses or extents of arguments, got '"
                         << guard.getExpression() << "'";
  return success();
}
