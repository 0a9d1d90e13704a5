//===- Lexer.cpp - PTX tokens (PTX ISA 4, Syntax) -------------------------===//

#include "Lexer.h"

#include <cstdlib>

namespace fa2::sim {

static bool isIdentifierStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '$' || c == '%' || c == '.';
}
static bool isDigit(char c) { return c >= '0' && c <= '9'; }
static bool isHexDigit(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
static unsigned hexValue(char c) {
  return isDigit(c) ? c - '0' : (c | 32) - 'a' + 10;
}

Token Lexer::take() {
  Token taken = token;
  advance();
  return taken;
}

void Lexer::skipBlanks() {
  while (at < text.size()) {
    char c = text[at];
    if (c == '\n') {
      ++line;
      ++at;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at;
    } else if (text.compare(at, 2, "//") == 0) {
      while (at < text.size() && text[at] != '\n')
        ++at;
    } else if (text.compare(at, 2, "/*") == 0) {
      unsigned opened = line;
      for (at += 2; at < text.size() && text.compare(at, 2, "*/") != 0; ++at)
        line += text[at] == '\n';
      if (at >= text.size())
        throw SyntaxError{opened, "comment is never closed"};
      at += 2;
    } else {
      break;
    }
  }
}

// 0x.., 0b.., 0.. (octal), decimal, each with an optional U; 0f and 0d with the
// bits of a float; decimal floats (PTX ISA 4.5.1, 4.5.2).
void Lexer::lexNumber() {
  size_t begin = at;
  auto next = [&](size_t k) { return at + k < text.size() ? text[at + k] : 0; };
  auto hex = [&](unsigned skip, unsigned most) {
    at += skip;
    u64 value = 0;
    unsigned digits = 0;
    for (; at < text.size() && isHexDigit(text[at]); ++at, ++digits)
      value = value << 4 | hexValue(text[at]);
    if (digits == 0 || digits > most)
      throw SyntaxError{line, "malformed number '" +
                                  std::string(text.substr(begin, 24)) + "'"};
    return value;
  };
  token.kind = Token::Integer;
  if (text[at] == '0' && (next(1) == 'f' || next(1) == 'F')) {
    token.kind = Token::Float;
    token.floatBytes = 4;
    token.bits = hex(2, 8);
  } else if (text[at] == '0' && (next(1) == 'd' || next(1) == 'D')) {
    token.kind = Token::Float;
    token.floatBytes = 8;
    token.bits = hex(2, 16);
  } else if (text[at] == '0' && (next(1) == 'x' || next(1) == 'X')) {
    token.bits = hex(2, 16);
  } else {
    while (at < text.size() && isDigit(text[at]))
      ++at;
    bool isDecimalFloat = at < text.size() && text[at] == '.' &&
                          at + 1 < text.size() && isDigit(text[at + 1]);
    bool hasExponent =
        at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E') &&
        (isDigit(text[at + 1]) || text[at + 1] == '-' || text[at + 1] == '+');
    if (isDecimalFloat || hasExponent) {
      while (at < text.size() &&
             (isDigit(text[at]) || text[at] == '.' || text[at] == 'e' ||
              text[at] == 'E' ||
              ((text[at] == '-' || text[at] == '+') &&
               (text[at - 1] == 'e' || text[at - 1] == 'E'))))
        ++at;
      std::string digits(text.substr(begin, at - begin));
      token.kind = Token::Float;
      token.floatBytes = 8;
      token.bits = std::bit_cast<u64>(std::strtod(digits.c_str(), nullptr));
    } else {
      bool octal = at - begin > 1 && text[begin] == '0';
      u64 value = 0;
      for (size_t k = begin; k < at; ++k) {
        u64 base = octal ? 8 : 10, digit = text[k] - '0';
        if (digit >= base || value > (~u64(0) - digit) / base)
          throw SyntaxError{line, "malformed number '" +
                                      std::string(text.substr(begin, 24)) +
                                      "'"};
        value = value * base + digit;
      }
      token.bits = value;
    }
  }
  if (token.kind == Token::Integer && at < text.size() && text[at] == 'U')
    ++at;
  token.text = text.substr(begin, at - begin);
}

void Lexer::advance() {
  skipBlanks();
  token = Token();
  token.line = line;
  if (at >= text.size())
    return;
  char c = text[at];
  size_t begin = at;
  if (isDigit(c)) {
    lexNumber();
  } else if (isIdentifierStart(c)) {
    for (++at; at < text.size(); ++at) {
      char d = text[at];
      if (isIdentifierStart(d) || isDigit(d))
        continue;
      // "shared::cta", never a label's colon.
      if (text.compare(at, 2, "::") == 0) {
        ++at;
        continue;
      }
      break;
    }
    token.kind = Token::Identifier;
    token.text = text.substr(begin, at - begin);
  } else if (c == '"') {
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      if (text[at] == '\\')
        ++at;
    if (at >= text.size() || text[at] != '"')
      throw SyntaxError{line, "string is never closed"};
    token.kind = Token::String;
    token.text = text.substr(begin + 1, at - begin - 1);
    ++at;
  } else {
    token.kind = Token::Punctuation;
    token.text = text.substr(at++, 1);
  }
}

void Lexer::skipBraces() {
  // The current token is the opening brace; `at` is just behind it.
  unsigned opened = token.line, depth = 1;
  for (; at < text.size() && depth; ++at) {
    line += text[at] == '\n';
    depth += text[at] == '{';
    depth -= text[at] == '}';
  }
  if (depth)
    throw SyntaxError{opened, "brace is never closed"};
  advance();
}

} // namespace fa2::sim
