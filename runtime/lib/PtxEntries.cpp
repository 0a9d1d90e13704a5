//===- PtxEntries.cpp - the entries of a PTX text -------------------------===//

#include "PtxEntries.h"

#include <cstdint>

namespace fa2rt {

namespace {

/// Splits PTX into words and single punctuation marks, without comments.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  /// The next token; empty at the end.
  std::string_view next() {
    skip();
    if (at >= text.size())
      return {};
    size_t begin = at;
    if (text[at] == '"') { // a string is one token
      size_t end = text.find('"', at + 1);
      at = end == std::string_view::npos ? text.size() : end + 1;
    } else if (isWord(text[at])) {
      while (at < text.size() && isWord(text[at]))
        ++at;
    } else {
      ++at;
    }
    return text.substr(begin, at - begin);
  }

private:
  static bool isWord(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '.' ||
           c == '%';
  }

  void skip() {
    while (at < text.size()) {
      if (text.compare(at, 2, "//") == 0)
        at = text.find('\n', at);
      else if (text.compare(at, 2, "/*") == 0) {
        at = text.find("*/", at + 2);
        if (at != std::string_view::npos)
          at += 2;
      } else if (isWord(text[at]) || text[at] > ' ')
        return;
      else
        ++at;
      if (at == std::string_view::npos)
        at = text.size();
    }
  }

  std::string_view text;
  size_t at = 0;
};

size_t typeBytes(std::string_view token) {
  if (token.size() < 3 || token[0] != '.' ||
      std::string_view("busf").find(token[1]) == std::string_view::npos)
    return 0;
  std::string_view bits = token.substr(2);
  return bits == "8"    ? 1
         : bits == "16" ? 2
         : bits == "32" ? 4
         : bits == "64" ? 8
                        : 0;
}

size_t number(std::string_view token) {
  size_t value = 0;
  for (char c : token) {
    if (c < '0' || c > '9' || value > (size_t(1) << 40))
      return 0;
    value = value * 10 + size_t(c - '0');
  }
  return value;
}

} // namespace

std::vector<PtxEntry> findEntries(std::string_view ptx) {
  std::vector<PtxEntry> entries;
  Scanner scanner(ptx);
  for (std::string_view token = scanner.next(); !token.empty();
       token = scanner.next()) {
    if (token != ".entry")
      continue;
    PtxEntry entry;
    entry.name = std::string(scanner.next());
    // ( .param .u64 .ptr .global .align 16 name, .param .align 64 .b8 n[128] )
    token = scanner.next();
    if (token == "(") {
      bool open = false;
      for (token = scanner.next(); !token.empty() && token != ")";
           token = scanner.next()) {
        if (token == ".param") {
          entry.parameterBytes.push_back(0);
          open = true;
        } else if (open && token == "[") {
          entry.parameterBytes.back() *= number(scanner.next());
        } else if (open && entry.parameterBytes.back() == 0) {
          entry.parameterBytes.back() = typeBytes(token);
        }
      }
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

} // namespace fa2rt
