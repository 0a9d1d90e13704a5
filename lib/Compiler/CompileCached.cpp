//===- CompileCached.cpp - compiling what was not compiled before ---------===//

#include "BuildIdentity.h"
#include "fa2/Compiler/Cache.h"
#include "fa2/Compiler/Compiler.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <chrono>

using namespace fa2;
using llvm::StringRef;

namespace {

/// Texts and numbers one after the other, each with its length.
class Writer {
public:
  void operator()(StringRef value) {
    text += (llvm::Twine(value.size()) + ":" + value).str();
  }
  void operator()(int64_t value) { (*this)(std::to_string(value)); }
  template <typename T> void operator()(std::vector<T> &values) {
    (*this)(int64_t(values.size()));
    for (T &value : values)
      transfer(*this, value);
  }
  std::string text;
};

/// The same backwards; what is not there stays as it is, and `good` says so.
class Reader {
public:
  explicit Reader(StringRef text) : rest(text) {}
  void operator()(std::string &value) { value = next().str(); }
  void operator()(int64_t &value) {
    if (next().getAsInteger(10, value))
      good = false;
  }
  template <typename T> void operator()(std::vector<T> &values) {
    int64_t size = 0;
    for ((*this)(size); good && size > 0; --size)
      transfer(*this, values.emplace_back());
  }
  bool complete() const { return good && rest.empty(); }

private:
  StringRef next() {
    auto [digits, after] = rest.split(':');
    size_t size = 0;
    good = good && !digits.getAsInteger(10, size) && size <= after.size();
    StringRef value = good ? after.take_front(size) : StringRef();
    rest = good ? after.drop_front(size) : StringRef();
    return value;
  }

  StringRef rest;
  bool good = true;
};

template <typename Stream> void transfer(Stream &s, std::string &text) {
  s(text);
}
template <typename Stream>
void transfer(Stream &s, Compilation::VariantLaunch &launch) {
  s(launch.when);
  s(launch.sharedBytes);
  s(launch.threads);
}
/// All but the times, which are of one compilation.
template <typename Stream> void transfer(Stream &s, Compilation &c) {
  s(c.kernel);
  s(c.schedule);
  s(c.choices);
  s(c.reasons);
  s(c.warnings);
  s(c.notes);
  s(c.sharedBytes);
  s(c.threads);
  s(c.variants);
  s(c.text);
}

/// A name for what a compilation yields. A module counts by its text: to see
/// that two texts are one module would cost as much as the rest of a hit.
std::string entryName(const Specification &spec, const CompileOptions &options,
                      std::optional<StringRef> source) {
  Writer key;
  key(buildIdentity());
  key(int64_t(options.emit));
  key(int64_t(options.lineInfo));
  key(spec.identity());
  key(int64_t(source.has_value()));
  key(source.value_or(""));
  // Of a database counts what it holds. One that cannot be read is refused by
  // the compiler, and refusals are not kept.
  if (auto file = llvm::MemoryBuffer::getFile(spec.database))
    key((*file)->getBuffer());
  return nameOfContent(key.text);
}

std::optional<Compilation> read(const Cache &cache, StringRef name,
                                std::string &warning) {
  auto start = std::chrono::steady_clock::now();
  std::optional<std::string> content = cache.get(name, warning);
  if (!content)
    return std::nullopt;
  Compilation result;
  Reader reader(*content);
  transfer(reader, result);
  if (!reader.complete()) {
    warning = llvm::formatv("the cache's entry {0} is not understood; the "
                            "kernel is compiled again",
                            name);
    return std::nullopt;
  }
  result.cached = true;
  std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - start;
  result.times.push_back({"cache", took.count()});
  return result;
}

} // namespace

mlir::FailureOr<Compilation>
fa2::compileCached(const Specification &spec, const CompileOptions &options,
                   std::string &error, std::optional<StringRef> source) {
  std::optional<Cache> cache;
  error = Cache::open(spec.cache, cache);
  if (!error.empty())
    return mlir::failure();
  // Whoever watches the stages wants them to run.
  if (!cache || options.onStage || !options.reproducer.empty())
    return compile(spec, options, error, source);
  std::string name = entryName(spec, options, source), warning;
  if (std::optional<Compilation> kept = read(*cache, name, warning))
    return std::move(*kept);
  auto result = compile(spec, options, error, source);
  if (mlir::failed(result))
    return result;
  // A database may have been written anew meanwhile.
  if (name == entryName(spec, options, source)) {
    Writer writer;
    transfer(writer, *result);
    std::string why = cache->put(name, writer.text);
    result->cacheWarning = warning.empty() ? why : warning;
  }
  return result;
}
