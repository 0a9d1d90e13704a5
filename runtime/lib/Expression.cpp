//===- Expression.cpp - the manifest's expressions ------------------------===//

#include "Expression.h"

#include "Error.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace fa2rt {

namespace {
/// Deeper nesting is refused, so that hostile input cannot exhaust the stack.
constexpr int kMaxDepth = 200;
constexpr size_t kMaxNodes = 2000;

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
} // namespace

/// Recursive descent, one function a rule of the grammar.
class Expression::Parser {
public:
  Parser(Expression &result, const SlotLookup &lookup)
      : result(result), text(result.source), lookup(lookup) {}

  uint32_t parseAll() {
    uint32_t root = parseOr();
    skipSpace();
    if (position < text.size())
      error(formatError("unexpected '{}'", text[position]));
    return root;
  }

private:
  [[noreturn]] void error(const std::string &what) const {
    throw std::invalid_argument(formatError("expression '{}': {} at column {}",
                                            text, what, position + 1));
  }

  void skipSpace() {
    while (position < text.size() &&
           (text[position] == ' ' || text[position] == '\t'))
      ++position;
  }

  bool accept(std::string_view token) {
    skipSpace();
    if (text.compare(position, token.size(), token) != 0)
      return false;
    position += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (accept(token))
      return;
    error(position < text.size()
              ? formatError("expected '{}', got '{}'", token, text[position])
              : formatError("expected '{}', got the end", token));
  }

  uint32_t add(Node node) {
    if (result.nodes.size() >= kMaxNodes)
      error(formatError("more than {} operations", kMaxNodes));
    result.nodes.push_back(node);
    return static_cast<uint32_t>(result.nodes.size() - 1);
  }
  uint32_t add(Kind kind, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
    return add(Node{kind, 0, a, b, c});
  }

  uint32_t parseOr() {
    if (++depth > kMaxDepth)
      error(formatError("nested deeper than {} levels", kMaxDepth));
    uint32_t left = parseAnd();
    while (accept("||"))
      left = add(Kind::Or, left, parseAnd());
    --depth;
    return left;
  }

  uint32_t parseAnd() {
    uint32_t left = parseComparison();
    while (accept("&&"))
      left = add(Kind::And, left, parseComparison());
    return left;
  }

  uint32_t parseComparison() {
    static constexpr std::pair<std::string_view, Kind> operators[] = {
        {"==", Kind::Equal},     {"!=", Kind::NotEqual},
        {"<=", Kind::LessEqual}, {">=", Kind::GreaterEqual},
        {"<", Kind::Less},       {">", Kind::Greater}};
    uint32_t left = parseSum();
    for (auto [token, kind] : operators)
      if (accept(token))
        return add(kind, left, parseSum());
    return left;
  }

  uint32_t parseSum() {
    uint32_t left = parseTerm();
    while (true) {
      if (accept("+"))
        left = add(Kind::Add, left, parseTerm());
      else if (accept("-"))
        left = add(Kind::Subtract, left, parseTerm());
      else
        return left;
    }
  }

  uint32_t parseTerm() {
    uint32_t left = parseUnary();
    while (true) {
      if (accept("*"))
        left = add(Kind::Multiply, left, parseUnary());
      else if (accept("/"))
        left = add(Kind::Divide, left, parseUnary());
      else if (accept("%"))
        left = add(Kind::Remainder, left, parseUnary());
      else
        return left;
    }
  }

  uint32_t parseUnary() {
    if (++depth > kMaxDepth)
      error(formatError("nested deeper than {} levels", kMaxDepth));
    uint32_t node;
    skipSpace();
    bool notEqual = text.compare(position, 2, "!=") == 0;
    if (accept("-"))
      node = add(Kind::Negate, parseUnary());
    else if (!notEqual && accept("!"))
      node = add(Kind::Not, parseUnary());
    else
      node = parseAtom();
    --depth;
    return node;
  }

  uint32_t parseAtom() {
    skipSpace();
    if (position >= text.size())
      error("expected a value, got the end");
    char c = text[position];
    if (isDigit(c))
      return add(Node{Kind::Constant, parseInteger()});
    if (accept("(")) {
      uint32_t inner = parseOr();
      expect(")");
      return inner;
    }
    if (!isNameStart(c))
      error(formatError("expected a value, got '{}'", c));
    std::string name = parseName();
    if (accept("("))
      return parseCall(name);
    return parseNamed(name);
  }

  int64_t parseInteger() {
    int64_t value = 0;
    while (position < text.size() && isDigit(text[position])) {
      int digit = text[position] - '0';
      if (__builtin_mul_overflow(value, int64_t(10), &value) ||
          __builtin_add_overflow(value, int64_t(digit), &value))
        error("an integer beyond 2^63 - 1");
      ++position;
    }
    return value;
  }

  std::string parseName() {
    size_t begin = position;
    while (position < text.size() &&
           (isNameStart(text[position]) || isDigit(text[position])))
      ++position;
    return text.substr(begin, position - begin);
  }

  /// name | name "." field | name ".stride[" integer "]"
  uint32_t parseNamed(std::string name) {
    if (position < text.size() && text[position] == '.') {
      ++position;
      std::string field = parseName();
      name += "." + field;
      if (field == "stride" && accept("[")) {
        skipSpace();
        if (position >= text.size() || !isDigit(text[position]))
          error("expected an integer in stride[...]");
        name += formatError("[{}]", parseInteger());
        expect("]");
      }
    }
    std::optional<uint32_t> slot = lookup(name);
    if (!slot)
      error(formatError("unknown name '{}'", name));
    bool seen = false;
    for (auto &entry : result.used)
      seen |= entry.second == *slot;
    if (!seen)
      result.used.emplace_back(name, *slot);
    return add(Node{Kind::Slot, *slot});
  }

  uint32_t parseCall(const std::string &name) {
    struct Function {
      std::string_view name;
      Kind kind;
      int arity;
    };
    static constexpr Function functions[] = {{"min", Kind::Min, 2},
                                             {"max", Kind::Max, 2},
                                             {"ceildiv", Kind::CeilDiv, 2},
                                             {"pow2floor", Kind::Pow2Floor, 1},
                                             {"if", Kind::If, 3}};
    for (const Function &function : functions) {
      if (function.name != name)
        continue;
      uint32_t operands[3] = {};
      for (int i = 0; i < function.arity; ++i) {
        if (i > 0)
          expect(",");
        operands[i] = parseOr();
      }
      if (accept(","))
        error(formatError("'{}' takes {} operand{}", name, function.arity,
                          function.arity == 1 ? "" : "s"));
      expect(")");
      return add(function.kind, operands[0], operands[1], operands[2]);
    }
    error(formatError("unknown function '{}' (known: min, max, ceildiv, "
                      "pow2floor, if)",
                      name));
  }

  Expression &result;
  const std::string &text;
  const SlotLookup &lookup;
  size_t position = 0;
  int depth = 0;
};

Expression Expression::parse(std::string_view text, const SlotLookup &lookup) {
  Expression result;
  result.source = std::string(text);
  result.root = Parser(result, lookup).parseAll();
  return result;
}

Expression Expression::constant(int64_t value) {
  Expression result;
  result.source = std::to_string(value);
  result.nodes.push_back(Node{Kind::Constant, value});
  return result;
}

int64_t Expression::evaluate(SlotValues values) const {
  return evaluate(root, values);
}

void Expression::fault(const char *what) const {
  throw std::domain_error(formatError("expression '{}': {}", source, what));
}

int64_t Expression::evaluate(uint32_t index, SlotValues values) const {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const Node &node = nodes[index];

  // Operands that may stay unevaluated.
  switch (node.kind) {
  case Kind::Constant:
    return node.value;
  case Kind::Slot: {
    const std::optional<int64_t> &value = values[size_t(node.value)];
    if (value)
      return *value;
    for (const auto &[name, slot] : used)
      if (int64_t(slot) == node.value)
        throw std::domain_error(
            formatError("expression '{}': '{}' has no value because the "
                        "argument that gives it was left out",
                        source, name));
    fault("a name has no value");
  }
  case Kind::And:
    return evaluate(node.a, values) != 0 && evaluate(node.b, values) != 0;
  case Kind::Or:
    return evaluate(node.a, values) != 0 || evaluate(node.b, values) != 0;
  case Kind::If:
    return evaluate(node.a, values) != 0 ? evaluate(node.b, values)
                                         : evaluate(node.c, values);
  default:
    break;
  }

  int64_t a = evaluate(node.a, values), result = 0;
  switch (node.kind) {
  case Kind::Negate:
    if (a == kMin)
      fault("overflow of 64 bits in '-'");
    return -a;
  case Kind::Not:
    return a == 0;
  case Kind::Pow2Floor:
    if (a < 1)
      fault("pow2floor needs a value of at least 1");
    return int64_t(1) << (63 - __builtin_clzll(uint64_t(a)));
  default:
    break;
  }

  int64_t b = evaluate(node.b, values);
  switch (node.kind) {
  case Kind::Add:
    if (__builtin_add_overflow(a, b, &result))
      fault("overflow of 64 bits in '+'");
    return result;
  case Kind::Subtract:
    if (__builtin_sub_overflow(a, b, &result))
      fault("overflow of 64 bits in '-'");
    return result;
  case Kind::Multiply:
    if (__builtin_mul_overflow(a, b, &result))
      fault("overflow of 64 bits in '*'");
    return result;
  case Kind::Divide:
  case Kind::Remainder:
    if (b == 0)
      fault("division by zero");
    if (a == kMin && b == -1)
      fault("overflow of 64 bits in a division");
    return node.kind == Kind::Divide ? a / b : a % b;
  case Kind::CeilDiv:
    if (b <= 0)
      fault("ceildiv needs a divisor above 0");
    return a / b + (a % b > 0);
  case Kind::Equal:
    return a == b;
  case Kind::NotEqual:
    return a != b;
  case Kind::LessEqual:
    return a <= b;
  case Kind::GreaterEqual:
    return a >= b;
  case Kind::Less:
    return a < b;
  case Kind::Greater:
    return a > b;
  case Kind::Min:
    return a < b ? a : b;
  case Kind::Max:
    return a > b ? a : b;
  default:
    fault("an unknown operation");
  }
}

} // namespace fa2rt
