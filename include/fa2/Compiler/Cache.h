//===- Cache.h - what was compiled, on disk ---------------------*- C++ -*-===//
//
// A folder with a file an entry, named by a hash of everything that its content
// follows from. Any number of processes may use one: a file appears whole or
// not at all, and equal names have equal contents, so nothing is locked.
//
//===----------------------------------------------------------------------===//
#ifndef FA2_COMPILER_CACHE_H
#define FA2_COMPILER_CACHE_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fa2 {

class Cache {
public:
  Cache(std::string folder, uint64_t limit)
      : where(std::move(folder)), most(limit) {}

  /// The one that is asked for: a folder, "none", or "" for the environment's,
  /// FA2_CACHE_DIR with at most FA2_CACHE_MB (else 512), by default in the
  /// user's folder for caches; FA2_CACHE=0 is none. Without one `cache` stays
  /// empty. Returns what is wrong, or an empty string.
  static std::string open(llvm::StringRef asked, std::optional<Cache> &cache);

  /// An entry's content, which is the latest used from here on. Nothing where
  /// there is none; where it is damaged, `warning` says so.
  std::optional<std::string> get(llvm::StringRef name,
                                 std::string &warning) const;
  /// Keeps an entry and removes those that were not used for the longest time
  /// where the folder outgrows its limit. Returns why it could not, or "".
  std::string put(llvm::StringRef name, llvm::StringRef content) const;

  /// Bytes of all entries.
  uint64_t size() const;
  const std::string &folder() const { return where; }
  uint64_t limit() const { return most; }

private:
  std::string pathOf(llvm::StringRef name) const;
  void shrink() const;

  std::string where;
  uint64_t most;
};

/// A name for what follows from a text: 64 hexadecimal digits.
std::string nameOfContent(llvm::StringRef text);

} // namespace fa2

#endif
