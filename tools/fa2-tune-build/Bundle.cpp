//===- Bundle.cpp - compiled candidates in a folder -----------------------===//

#include "Bundle.h"

#include "fa2/Compiler/Compiler.h"
#include "fa2/Compiler/OutputFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <mutex>

using namespace fa2;
using namespace fa2tune;
namespace json = llvm::json;
using llvm::formatv;

namespace {
/// FNV-1a, which the measuring half computes too.
uint64_t hashOf(llvm::StringRef text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

/// The PTX without its leading comment, which names the schedule.
llvm::StringRef codeOf(llvm::StringRef ptx) {
  while (ptx.starts_with("//"))
    ptx = ptx.drop_front(std::min(ptx.find('\n'), ptx.size() - 1) + 1);
  return ptx;
}

json::Object problemJson(const Subject &subject) {
  const Specification &spec = subject.spec;
  json::Object problem{
      {"pass", spec.pass},
      {"arch", spec.arch},
      {"dtype", spec.dtype},
      {"head_dim", spec.headDim},
      {"head_dim_v", spec.headDimV ? spec.headDimV : spec.headDim},
      {"mask", spec.mask}};
  if (std::string needs = subject.problem.needs(); !needs.empty())
    problem["needs"] = needs;
  return problem;
}

json::Array shapesJson(const std::vector<Shape> &shapes) {
  json::Array list;
  for (const Shape &s : shapes)
    list.push_back(json::Object{{"batch", s.batch},
                                {"heads", s.heads},
                                {"heads_kv", s.headsKv},
                                {"seqlen_q", s.seqlenQ},
                                {"seqlen_k", s.seqlenK}});
  return list;
}

class Writer {
public:
  Writer(llvm::StringRef folder, bool quiet) : folder(folder), quiet(quiet) {}

  std::string run(const std::vector<Wanted> &wanted, unsigned jobs) {
    if (std::error_code ec = llvm::sys::fs::create_directories(folder))
      return "cannot create '" + folder + "': " + ec.message();
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency(jobs));
    for (size_t i = 0; i < wanted.size(); ++i)
      total += wanted[i].candidates.size();
    results.resize(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      results[i].resize(wanted[i].candidates.size());
      for (size_t j = 0; j < wanted[i].candidates.size(); ++j)
        pool.async([&, i, j] {
          compileOne(wanted[i].subject, wanted[i].candidates[j], i, j);
        });
    }
    pool.wait();
    if (!failure.empty())
      return failure;
    return writeList(wanted);
  }

private:
  struct Result {
    std::string file, why;
    uint64_t hash = 0, code = 0;
    int64_t bytes = 0, sharedBytes = 0, threads = 0;
  };

  /// A specification that stands twice, asking for other fields, has files of
  /// its own each time.
  static std::string part(size_t i) {
    return i == 0 ? "" : formatv("{0}-", i).str();
  }

  void compileOne(const Subject &subject, const Candidate &candidate, size_t i,
                  size_t j) {
    {
      std::lock_guard lock(mutex);
      if (!failure.empty())
        return;
    }
    Specification spec = subject.spec;
    spec.schedule = candidate.schedule;
    spec.variants = spec.pass == "backward" ? "" : "none";
    Result &result = results[i][j];
    auto compiled = compileCached(spec, {}, result.why, subject.module);
    if (mlir::succeeded(compiled)) {
      result.file = formatv("{0}-{1}{2,0+3}.ptx",
                            subject.name() + "_" + spec.arch, part(i), j);
      result.hash = hashOf(compiled->text);
      result.code = hashOf(codeOf(compiled->text));
      result.bytes = int64_t(compiled->text.size());
      result.sharedBytes = compiled->sharedBytes;
      result.threads = compiled->threads;
      llvm::SmallString<128> path(folder);
      llvm::sys::path::append(path, result.file);
      if (std::string why = writeFile(path, compiled->text); !why.empty()) {
        std::lock_guard lock(mutex);
        failure = "cannot write '" + path.str().str() + "': " + why;
      }
    }
    report();
  }

  void report() {
    std::lock_guard lock(mutex);
    ++done;
    if (quiet)
      return;
    bool terminal = llvm::errs().is_displayed();
    if (terminal || done % 50 == 0 || done == total)
      llvm::errs() << (terminal ? "\r" : "")
                   << formatv("compiled {0} of {1}", done, total)
                   << (terminal && done != total ? "" : "\n");
  }

  std::string writeList(const std::vector<Wanted> &wanted) {
    json::Array kernels, refused;
    for (size_t i = 0; i < wanted.size(); ++i) {
      std::map<uint64_t, std::string> seen;
      for (size_t j = 0; j < wanted[i].candidates.size(); ++j) {
        const Candidate &c = wanted[i].candidates[j];
        Result &r = results[i][j];
        auto first = seen.try_emplace(r.code, c.schedule);
        if (r.why.empty() && !first.second)
          r.why = "the code is that of " + first.first->second;
        json::Object line{{"problem", problemJson(wanted[i].subject)},
                          {"schedule", c.schedule},
                          {"source", c.source},
                          {"bits", c.bits}};
        if (!r.why.empty()) {
          line["why"] = r.why;
          refused.push_back(std::move(line));
          continue;
        }
        line["file"] = r.file;
        line["hash"] = formatv("{0,0+16:x-}", r.hash).str();
        line["shared_bytes"] = r.sharedBytes;
        line["threads"] = r.threads;
        line["model_ms"] = json::Array(c.milliseconds);
        line["shapes"] = int64_t(i);
        kernels.push_back(std::move(line));
      }
    }
    json::Array shapes;
    for (const Wanted &w : wanted)
      shapes.push_back(shapesJson(w.shapes));
    std::string text;
    llvm::raw_string_ostream os(text);
    // A line a kernel, so that people and version control can read it.
    os << formatv("{{\"fa2_tune_bundle\": {0},\n \"compiler\": \"fa2 {1}\",\n",
                  kBundleVersion, FA2_VERSION);
    auto list = [&](llvm::StringRef name, json::Array &values,
                    llvm::StringRef end) {
      os << " \"" << name << "\": [";
      for (size_t i = 0; i < values.size(); ++i)
        os << (i ? ",\n  " : "\n  ") << values[i];
      os << "]" << end;
    };
    list("shapes", shapes, ",\n");
    list("kernels", kernels, ",\n");
    list("refused", refused, "}\n");
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "bundle.json");
    std::string why = writeFile(path, text);
    if (!why.empty())
      return "cannot write '" + path.str().str() + "': " + why;
    if (!quiet)
      llvm::errs() << formatv("{0} kernels in {1}, {2} refused\n",
                              kernels.size(), folder, refused.size());
    return "";
  }

  std::string folder;
  bool quiet;
  std::mutex mutex;
  std::string failure;
  size_t done = 0, total = 0;
  std::vector<std::vector<Result>> results;
};
} // namespace

std::string fa2tune::writeBundle(llvm::StringRef folder,
                                 const std::vector<Wanted> &wanted,
                                 unsigned jobs, bool quiet) {
  return Writer(folder, quiet).run(wanted, jobs);
}
