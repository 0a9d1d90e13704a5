//===- CApi.cpp - the compiler's C interface ------------------------------===//

#include "fa2/Compiler/Cache.h"
#include "fa2/Compiler/Compiler.h"
#include "fa2/fa2.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <new>

struct fa2_compilation {
  bool ok = false, cached = false;
  std::string text, error, explanation;
};

/// What a module's text says itself, or an empty string.
static std::string saidTwice(const fa2::Specification &spec) {
  llvm::StringRef key = spec.saidOfOperation();
  return key.empty() ? ""
                     : (key + " is what the module says: expected arch, pass, "
                              "schedule, variants or fields of a schedule")
                           .str();
}

/// Where kernels are kept.
static void describeCache(const char *text, fa2_compilation &c) {
  fa2::Specification spec;
  c.error = spec.setAll(text ? text : "");
  std::optional<fa2::Cache> cache;
  if (c.error.empty())
    c.error = fa2::Cache::open(spec.cache, cache);
  c.ok = c.error.empty();
  if (cache)
    c.text = llvm::formatv("{0}\n{1} of at most {2} MB\n", cache->folder(),
                           cache->size() >> 20, cache->limit() >> 20);
}

/// The PTX, or where `emit` says so no more than the schedules.
static void compile(const char *text, std::optional<llvm::StringRef> source,
                    fa2::OutputKind emit, fa2_compilation &c) {
  fa2::Specification spec;
  if (!text) {
    c.error = "expected a specification, got a null pointer";
    return;
  }
  c.error = spec.setAll(text);
  if (c.error.empty() && source)
    c.error = saidTwice(spec);
  if (!c.error.empty())
    return;
  fa2::CompileOptions options;
  options.emit = emit;
  auto result = fa2::compileCached(spec, options, c.error, source);
  if (mlir::failed(result))
    return;
  c.ok = true;
  c.cached = result->cached;
  c.text = emit == fa2::OutputKind::PTX ? std::move(result->text)
                                        : llvm::join(result->choices, "\n");
  c.explanation = result->schedule + "\n";
  for (const std::string &reason : result->reasons)
    c.explanation += reason + "\n";
  for (const std::string &warning : result->warnings)
    c.explanation += "warning: " + warning + "\n";
  if (!result->cacheWarning.empty())
    c.explanation += "cache: " + result->cacheWarning + "\n";
  for (const std::string &note : result->notes)
    c.explanation += "note: " + note + "\n";
}

/// What `fill` makes of a new one.
template <typename Fill> static fa2_compilation *filled(Fill fill) {
  auto *c = new (std::nothrow) fa2_compilation;
  if (c) {
    fill(*c);
    c->error = fa2::shortened(c->error);
  }
  return c;
}

static fa2_compilation *run(const char *specification,
                            std::optional<llvm::StringRef> module,
                            fa2::OutputKind emit) {
  return filled(
      [&](fa2_compilation &c) { compile(specification, module, emit, c); });
}

extern "C" {

const char *fa2_version(void) { return FA2_VERSION; }

fa2_compilation *fa2_compile(const char *specification) {
  return run(specification, std::nullopt, fa2::OutputKind::PTX);
}

fa2_compilation *fa2_compile_module(const char *module,
                                    const char *specification) {
  if (module)
    return run(specification, module, fa2::OutputKind::PTX);
  return filled([](fa2_compilation &c) {
    c.error = "expected a module's text, got a null pointer";
  });
}

fa2_compilation *fa2_schedules(const char *module, const char *specification) {
  if (module)
    return run(specification, module, fa2::OutputKind::FA2);
  return run(specification, std::nullopt, fa2::OutputKind::FA2);
}

fa2_compilation *fa2_cache(const char *specification) {
  return filled([&](fa2_compilation &c) { describeCache(specification, c); });
}

int fa2_compilation_ok(const fa2_compilation *c) { return c && c->ok; }

int fa2_compilation_cached(const fa2_compilation *c) { return c && c->cached; }

const char *fa2_compilation_text(const fa2_compilation *c) {
  return c ? c->text.c_str() : "";
}

size_t fa2_compilation_size(const fa2_compilation *c) {
  return c ? c->text.size() : 0;
}

const char *fa2_compilation_error(const fa2_compilation *c) {
  return c ? c->error.c_str() : "out of memory";
}

const char *fa2_compilation_explanation(const fa2_compilation *c) {
  return c ? c->explanation.c_str() : "";
}

void fa2_compilation_free(fa2_compilation *c) { delete c; }

} // extern "C"
