//===- fa2-compile.cpp - a specification in, PTX out ----------------------===//

#include "KeyFlags.h"

#include "fa2/Compiler/Compiler.h"
#include "fa2/Compiler/OutputFile.h"
#include "fa2/Compiler/Ptxas.h"
#include "fa2/Target/Target.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"

namespace cl = llvm::cl;

static cl::OptionCategory kKernel("What to compute");
static cl::OptionCategory kSchedule("Schedule (what is left out is chosen)");
static cl::OptionCategory kOutput("Output");

static cl::opt<std::string>
    inputPath(cl::Positional, cl::value_desc("FILE.mlir"),
              cl::desc("a function with one fa2.attention, in place of the "
                       "flags that say what to compute (-: standard input)"),
              cl::cat(kKernel));
static cl::opt<std::string>
    outputPath("o", cl::init("-"), cl::value_desc("file"),
               cl::desc("where to write (-: standard output)"),
               cl::cat(kOutput));
enum class Kind { FA2, Tiles, GPU, NVVM, LLVMIR, PTX, Cubin };
static cl::opt<Kind> emitKind(
    "emit", cl::desc("what to write"), cl::init(Kind::PTX),
    cl::values(clEnumValN(Kind::FA2, "fa2", "the operation with its schedule"),
               clEnumValN(Kind::Tiles, "tiles",
                          "one block's program over tiles"),
               clEnumValN(Kind::GPU, "gpu",
                          "tiles laid out over warps, rings, barriers"),
               clEnumValN(Kind::NVVM, "nvvm", "llvm and nvvm operations"),
               clEnumValN(Kind::LLVMIR, "llvm", "LLVM IR"),
               clEnumValN(Kind::PTX, "ptx", "PTX with its manifest (default)"),
               clEnumValN(Kind::Cubin, "cubin", "machine code, by ptxas")),
    cl::cat(kOutput));
static cl::opt<bool> explain("explain",
                             cl::desc("say on standard error which schedule "
                                      "was chosen and why, shared memory, "
                                      "threads, where the time went and, where "
                                      "ptxas is, registers and spills"),
                             cl::cat(kOutput));
static cl::opt<bool>
    lineInfo("line-info", cl::desc("line numbers in the PTX, for profilers"),
             cl::cat(kOutput));
static cl::opt<std::string>
    reproducer("reproducer", cl::value_desc("file"),
               cl::desc("where a pass that fails or crashes leaves its input, "
                        "for fa2-opt --run-reproducer"),
               cl::cat(kOutput));
static cl::opt<std::string>
    saveTemps("save-temps", cl::value_desc("folder"),
              cl::desc("write the IR after each pass into this folder"),
              cl::cat(kOutput));

namespace {

int fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "fa2-compile")
      << fa2::shortened(message.str()) << "\n";
  return 1;
}

/// Writes `text`, or says why not.
bool write(llvm::StringRef path, llvm::StringRef text) {
  std::string why = fa2::writeFile(path, text);
  if (!why.empty())
    fail("cannot write '" + path + "': " + why);
  return why.empty();
}

fa2::OutputKind emitOf(Kind kind) {
  switch (kind) {
  case Kind::FA2:
    return fa2::OutputKind::FA2;
  case Kind::Tiles:
    return fa2::OutputKind::Tiles;
  case Kind::GPU:
    return fa2::OutputKind::GPU;
  case Kind::NVVM:
    return fa2::OutputKind::NVVM;
  case Kind::LLVMIR:
    return fa2::OutputKind::LLVMIR;
  default:
    return fa2::OutputKind::PTX;
  }
}

void printExplanation(const fa2::Compilation &c,
                      const std::optional<fa2::Assembly> &assembly,
                      llvm::StringRef ptxasNote) {
  llvm::raw_ostream &os = llvm::errs();
  os << c.kernel << "\n  " << c.schedule << "\n";
  for (const std::string &reason : c.reasons)
    os << "  " << reason << "\n";
  if (c.threads)
    os << "  launched with " << c.threads << " threads and " << c.sharedBytes
       << " bytes of shared memory a block\n";
  for (const fa2::Compilation::VariantLaunch &v : c.variants)
    os << "  where " << v.when << ": launched with " << v.threads
       << " threads and " << v.sharedBytes
       << " bytes of shared memory a block\n";
  if (assembly)
    os << "  ptxas" << (c.variants.empty() ? "" : ", the most of any kernel")
       << ": " << assembly->registers << " registers, "
       << assembly->spillStoreBytes << " bytes of spill stores, "
       << assembly->spillLoadBytes << " of spill loads, "
       << assembly->stackBytes << " of stack\n";
  else if (!ptxasNote.empty())
    os << "  " << ptxasNote << "\n";
  double total = 0;
  os << "  CPU time in ms:";
  for (const fa2::StageTime &t : c.times) {
    os << " " << t.stage << llvm::format(" %.1f,", t.milliseconds);
    total += t.milliseconds;
  }
  os << llvm::format(" in all %.1f\n", total);
}

/// --save-temps: a file for each stage, until one cannot be written.
class StageFiles {
public:
  /// False after an error.
  bool open(llvm::StringRef folder) {
    this->folder = folder.str();
    std::error_code ec = llvm::sys::fs::create_directories(folder);
    if (ec)
      fail("cannot create '" + folder + "': " + ec.message());
    return good = !ec;
  }
  void add(llvm::StringRef stage, llvm::StringRef text) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path,
                            llvm::formatv("{0,0+2}-{1}.mlir", number++, stage));
    good = good && write(path, text);
  }
  /// False where some files are missing; why has been said.
  bool complete() const { return good; }

private:
  std::string folder;
  int number = 0;
  bool good = true;
};

/// Why `text` does not go to a terminal unasked, or an empty string.
std::string notForTerminal(llvm::StringRef text, bool isBinary) {
  constexpr size_t maxLines = 1000;
  size_t lines = text.count('\n');
  if (outputPath.getNumOccurrences() != 0 || !llvm::outs().is_displayed() ||
      (!isBinary && lines <= maxLines))
    return "";
  return llvm::formatv("standard output is a terminal, which {0} would fill; "
                       "name a file with -o, or say -o - to see it there",
                       isBinary ? "machine code"
                                : llvm::formatv("{0} lines", lines).str());
}

/// Compiles to `path`; the IR after each pass to the folder `temps`, where that
/// is not empty.
int compile(const fa2::Specification &spec, llvm::StringRef path,
            llvm::StringRef temps) {
  std::optional<std::string> source;
  if (!inputPath.empty()) {
    auto file = llvm::MemoryBuffer::getFileOrSTDIN(inputPath, /*IsText=*/true);
    if (!file)
      return fail("cannot read '" + inputPath +
                  "': " + file.getError().message());
    source = (*file)->getBuffer().str();
  }
  fa2::CompileOptions options;
  options.emit = emitOf(emitKind);
  options.lineInfo = lineInfo;
  options.reproducer = reproducer;
  std::optional<std::string> ptxas = fa2::findPtxas();
  if (emitKind == Kind::Cubin && !ptxas)
    return fail("--emit=cubin needs ptxas, which was not found on PATH, in "
                "FA2_PTXAS or in "
                "CUDA_HOME; --emit=ptx needs nothing");

  StageFiles files;
  if (!temps.empty()) {
    if (!files.open(temps))
      return 1;
    options.onStage = [&](llvm::StringRef stage, llvm::StringRef text) {
      files.add(stage, text);
    };
  }

  std::string error;
  auto result = fa2::compileCached(spec, options, error, source);
  if (mlir::failed(result))
    return fail(error);
  if (!files.complete())
    return 1;
  for (const std::string &warning : result->warnings)
    llvm::WithColor::warning(llvm::errs(), "fa2-compile") << warning << "\n";
  if (!result->cacheWarning.empty())
    llvm::WithColor::warning(llvm::errs(), "fa2-compile")
        << result->cacheWarning << "\n";
  for (const std::string &note : result->notes)
    llvm::WithColor::note(llvm::errs(), "fa2-compile") << note << "\n";

  std::optional<fa2::Assembly> assembly;
  std::string note;
  bool isPtx = options.emit == fa2::OutputKind::PTX;
  if (isPtx && (emitKind == Kind::Cubin || explain)) {
    if (ptxas)
      assembly = fa2::assemble(*ptxas, result->text, spec.arch, note);
    else
      note = "ptxas was not found: registers and spills are not known";
    if (emitKind == Kind::Cubin && !assembly)
      return fail(note);
  }
  if (explain)
    printExplanation(*result, assembly, note);
  bool cubin = emitKind == Kind::Cubin;
  llvm::StringRef text = cubin ? assembly->cubin : result->text;
  if (std::string why = notForTerminal(text, cubin); !why.empty())
    return fail(why);
  return write(path, text) ? 0 : 1;
}

/// "attn.ptx" for pass backward: "attn.backward.ptx".
std::string pathOf(llvm::StringRef pass) {
  llvm::SmallString<128> path(outputPath);
  std::string ending = llvm::sys::path::extension(path).str();
  llvm::sys::path::replace_extension(path, pass + ending);
  return path.str().str();
}

/// A file and a folder of --save-temps for each pass.
int compileEach(fa2::Specification spec, llvm::ArrayRef<llvm::StringRef> passes,
                llvm::StringRef asked) {
  if (outputPath == "-")
    return fail("expected -o with a file name because --pass=" + asked +
                " writes a file for each pass, got '-'");
  // All are looked at before the first is written.
  for (auto [i, pass] : llvm::enumerate(passes)) {
    if (llvm::is_contained(passes.drop_front(i + 1), pass))
      return fail("expected --pass to name each pass once, got '" + asked +
                  "'");
    spec.pass = pass.str();
    if (std::string wrong = spec.check(); !wrong.empty())
      return fail(wrong);
  }
  for (llvm::StringRef pass : passes) {
    spec.pass = pass.str();
    llvm::SmallString<128> temps(saveTemps);
    if (!temps.empty())
      llvm::sys::path::append(temps, pass);
    if (int status = compile(spec, pathOf(pass), temps))
      return status;
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  fa2::KeyFlags keyFlags(kKernel, kSchedule, kOutput);
  cl::HideUnrelatedOptions({&kKernel, &kSchedule, &kOutput});
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &os) { os << "fa2-compile " FA2_VERSION "\n"; });
  cl::ParseCommandLineOptions(
      argc, argv,
      "fa2-compile: generates FlashAttention-2 kernels as PTX\n\n"
      "  fa2-compile --head-dim 128 --mask causal -o attention.ptx\n"
      "  fa2-compile --arch sm_90a --head-dim 128 -o hopper.ptx   (H100, "
      "H200)\n"
      "  fa2-compile --dtype f16 --head-dim 64 -o - | fa2-run -\n"
      "  fa2-compile --head-dim 256 --explain --emit=gpu\n"
      "  fa2-compile --pass forward,backward --head-dim 64 -o attention.ptx\n"
      "  fa2-compile program.mlir --arch sm_90a -o program.ptx\n\n"
      "Exit status: 0 all that was asked for is written; 1 it is not, and\n"
      "standard error says why.\n",
      /*Errs=*/nullptr, /*VFS=*/nullptr, /*EnvVar=*/nullptr,
      /*LongOptionsUseDoubleDash=*/true);

  fa2::Specification spec;
  if (std::string wrong = keyFlags.apply(spec, !inputPath.empty());
      !wrong.empty())
    return fail(wrong);
  llvm::SmallVector<llvm::StringRef> passes;
  std::string asked = spec.pass;
  llvm::StringRef(asked).split(passes, ',');
  if (passes.size() == 1)
    return compile(spec, outputPath, saveTemps);
  return compileEach(spec, passes, asked);
}
