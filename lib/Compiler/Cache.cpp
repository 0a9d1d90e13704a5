//===- Cache.cpp - what was compiled, on disk -----------------------------===//

#include "fa2/Compiler/Cache.h"
#include "fa2/Compiler/OutputFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <vector>

using namespace llvm;
namespace fs = llvm::sys::fs;

static constexpr uint64_t kDefaultMegabytes = 512;
static constexpr StringRef kMagic = "fa2-cache-2 ", kEnding = ".ptx";

std::string fa2::nameOfContent(StringRef text) {
  BLAKE3 hash;
  hash.update(text);
  return toHex(hash.final(), /*LowerCase=*/true);
}

static std::string headerOf(StringRef content) {
  return (kMagic + fa2::nameOfContent(content) + "\n").str();
}

static std::string variable(const char *name) {
  return sys::Process::GetEnv(name).value_or("");
}

/// The environment's folder, or "" where there is none to be had.
static std::string environmentFolder() {
  if (variable("FA2_CACHE") == "0")
    return "";
  if (std::string given = variable("FA2_CACHE_DIR"); !given.empty())
    return given;
  SmallString<128> path;
  if (!sys::path::cache_directory(path)) // XDG_CACHE_HOME or ~/.cache
    return "";
  sys::path::append(path, "fa2c");
  return path.str().str();
}

std::string fa2::Cache::open(StringRef asked, std::optional<Cache> &cache) {
  if (asked == "none")
    return "";
  std::string folder = asked.empty() ? environmentFolder() : asked.str();
  if (folder.empty())
    return "";
  uint64_t megabytes = kDefaultMegabytes;
  std::string given = variable("FA2_CACHE_MB");
  if (!given.empty() &&
      (StringRef(given).getAsInteger(10, megabytes) || megabytes >> 40))
    return formatv("expected FA2_CACHE_MB to be a number of megabytes, got "
                   "'{0}'",
                   given);
  cache.emplace(std::move(folder), megabytes << 20);
  return "";
}

std::string fa2::Cache::pathOf(StringRef name) const {
  SmallString<128> path(where);
  sys::path::append(path, name + kEnding);
  return path.str().str();
}

std::optional<std::string> fa2::Cache::get(StringRef name,
                                           std::string &warning) const {
  std::string path = pathOf(name);
  // What else may lie there, such as a pipe, could keep a reader for ever.
  if (!fs::is_regular_file(path))
    return std::nullopt;
  // Read, not mapped: whoever shortens it meanwhile does no harm.
  auto file = MemoryBuffer::getFile(path, /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false,
                                    /*IsVolatile=*/true);
  if (!file)
    return std::nullopt;
  StringRef all = (*file)->getBuffer();
  StringRef content = all.drop_front(std::min(all.find('\n'), all.size()));
  content.consume_front("\n");
  if (all.drop_back(content.size()) != headerOf(content)) {
    warning = formatv("the cache's {0} is damaged; the kernel is compiled "
                      "again",
                      path);
    return std::nullopt;
  }
  (void)utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return content.str();
}

/// Why files of that size may not be written at all: trying would end the
/// process, by a signal.
static std::string sizeError(size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) || bytes <= limit.rlim_cur)
    return "";
  return formatv("{0} bytes are more than the {1} that this process may write "
                 "to a file",
                 bytes, limit.rlim_cur);
}

std::string fa2::Cache::put(StringRef name, StringRef content) const {
  std::string whole = headerOf(content) + content.str();
  if (whole.size() > most)
    return "";
  std::string why = sizeError(whole.size());
  if (std::error_code ec = fs::create_directories(where); ec && why.empty())
    why = ec.message();
  if (why.empty())
    why = writeOwnFile(pathOf(name), whole);
  if (why.empty()) {
    shrink();
    return "";
  }
  return formatv("compiled kernels cannot be kept in {0}: {1}; FA2_CACHE_DIR "
                 "names another folder, FA2_CACHE=0 keeps none",
                 where, why);
}

namespace {
struct Entry {
  sys::TimePoint<> used;
  uint64_t bytes;
  std::string path;
};
} // namespace

/// Names of entries, and no others: a folder may hold what is not ours.
static bool isEntry(StringRef name) {
  return name.consume_back(kEnding) && name.size() == 64 &&
         all_of(name, isHexDigit);
}

/// What a process left that was killed while it wrote.
static bool isLeftOver(StringRef name, sys::TimePoint<> changed) {
  return name.starts_with(".fa2-") && name.ends_with(".tmp") &&
         std::chrono::system_clock::now() - changed > std::chrono::hours(1);
}

/// The entries; what another process removes meanwhile is left out.
static std::vector<Entry> entriesOf(StringRef folder,
                                    std::vector<std::string> &leftOver) {
  std::vector<Entry> entries;
  std::error_code ec;
  for (fs::directory_iterator at(folder, ec), end; at != end && !ec;
       at.increment(ec)) {
    StringRef name = sys::path::filename(at->path());
    auto status = at->status();
    if (!status || status->type() != fs::file_type::regular_file)
      continue;
    auto changed = status->getLastModificationTime();
    if (isEntry(name))
      entries.push_back({changed, status->getSize(), at->path()});
    else if (isLeftOver(name, changed))
      leftOver.push_back(at->path());
  }
  return entries;
}

static uint64_t sizeOf(const std::vector<Entry> &entries) {
  uint64_t total = 0;
  for (const Entry &entry : entries)
    total += entry.bytes;
  return total;
}

uint64_t fa2::Cache::size() const {
  std::vector<std::string> leftOver;
  return sizeOf(entriesOf(where, leftOver));
}

void fa2::Cache::shrink() const {
  std::vector<std::string> leftOver;
  std::vector<Entry> entries = entriesOf(where, leftOver);
  for (const std::string &path : leftOver)
    fs::remove(path);
  llvm::sort(entries, [](const Entry &a, const Entry &b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  uint64_t total = sizeOf(entries);
  for (const Entry &entry : entries) {
    if (total <= most)
      return;
    fs::remove(entry.path);
    total -= entry.bytes;
  }
}
