//===- Lexer.h - PTX tokens ------------------------------------*- C++ -*-===//
#ifndef FA2_RUNTIME_SIM_LEXER_H
#define FA2_RUNTIME_SIM_LEXER_H

#include "Isa.h"

#include <string_view>

namespace fa2::sim {

/// Thrown inside the parser only; parse() turns it into a ParseError.
struct SyntaxError {
  unsigned line;
  std::string text;
};

/// Identifiers keep their dots and double colons: "%tid.x" and
/// "mbarrier.try_wait.parity.shared::cta.b64" are one token each.
struct Token {
  enum Kind : u8 { End, Identifier, Integer, Float, String, Punctuation };
  Kind kind = End;
  std::string_view text;
  u64 bits = 0;      ///< Integer: the value; Float: the bit pattern
  u8 floatBytes = 0; ///< Float: 4 for 0f, 8 for 0d and decimal
  unsigned line = 0;
  bool is(char c) const { return kind == Punctuation && text[0] == c; }
  bool is(std::string_view s) const { return kind == Identifier && text == s; }
};

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) { advance(); }
  const Token &peek() const { return token; }
  Token take();
  /// Skips a `{ ... }` whose contents are not PTX (debug sections).
  void skipBraces();

private:
  void advance();
  void skipBlanks();
  void lexNumber();
  std::string_view text;
  size_t at = 0;
  unsigned line = 1;
  Token token;
};

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_LEXER_H
