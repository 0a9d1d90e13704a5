//===- PtxEntries.cpp - the entries of a PTX text -------------------------===//

#include "PtxEntries.h"

#include "Error.h"
#include "sim/Lexer.h"

#include <algorithm>

namespace fa2rt {

namespace sim = fa2::sim;

namespace {

using sim::Lexer;
using sim::Token;

void skipLine(Lexer &lex, unsigned line) {
  while (lex.peek().kind != Token::End && lex.peek().line == line)
    lex.take();
}

/// Behind `.param`: .v4 .u32 .ptr .global .align 16 name[128], as far as the
/// comma or the parenthesis.
size_t readParameter(Lexer &lex) {
  size_t bytes = 0, count = 1;
  while (lex.peek().kind != Token::End && !lex.peek().is(',') &&
         !lex.peek().is(')')) {
    Token token = lex.take();
    if (token.kind == Token::Identifier && token.text[0] == '.') {
      if (token.is(".v2") || token.is(".v4"))
        count *= size_t(token.text[2] - '0');
      else if (bytes == 0)
        bytes = sim::bytesOf(sim::typeNamed(token.text.substr(1)));
    } else if (token.is('[')) {
      bool sized = lex.peek().kind == Token::Integer &&
                   lex.peek().bits <= size_t(1) << 20 && count <= 1 << 20;
      count *= sized ? lex.peek().bits : 0;
    }
  }
  return bytes * count;
}

/// Behind `.entry`: the name and what stands in parentheses.
PtxEntry readEntry(Lexer &lex) {
  PtxEntry entry;
  entry.name = std::string(lex.take().text);
  bool open = lex.peek().is('(');
  while (open && lex.peek().kind != Token::End && !lex.peek().is(')'))
    if (lex.take().is(".param"))
      entry.parameterBytes.push_back(readParameter(lex));
  return entry;
}

std::vector<PtxEntry> readEntries(std::string_view text) {
  Lexer lex(text);
  std::vector<PtxEntry> entries;
  Token before;
  unsigned depth = 0;
  auto at = [&](const Token &token) {
    return size_t(token.text.data() - text.data());
  };
  while (lex.peek().kind != Token::End) {
    Token token = lex.take();
    if (token.is('{')) {
      ++depth;
    } else if (token.is('}') && depth > 0) {
      if (--depth == 0 && !entries.empty() && entries.back().end == 0)
        entries.back().end = at(token) + 1;
    } else if (token.is(".section")) {
      lex.take();
      if (lex.peek().is('{'))
        lex.skipBraces();
    } else if (token.is(".file") || token.is(".loc")) {
      skipLine(lex, token.line);
    } else if (token.is(".entry")) {
      bool linked = before.is(".visible") || before.is(".weak");
      entries.push_back(readEntry(lex));
      entries.back().begin = at(linked ? before : token);
    }
    before = token;
  }
  return entries;
}

} // namespace

std::vector<PtxEntry> findEntries(std::string_view ptx) {
  try {
    return readEntries(ptx);
  } catch (const sim::SyntaxError &error) {
    fail(FA2RT_ERROR_MANIFEST, "the PTX, line {}: {}", error.line, error.text);
  }
}

std::string keepEntries(std::string_view ptx,
                        std::span<const std::string> names) {
  std::string kept;
  size_t at = 0;
  for (const PtxEntry &entry : findEntries(ptx)) {
    if (std::ranges::find(names, entry.name) != names.end() || !entry.end)
      continue;
    kept += ptx.substr(at, entry.begin - at);
    at = entry.end;
  }
  kept += ptx.substr(at);
  return kept;
}

} // namespace fa2rt
