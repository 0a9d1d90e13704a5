//===- Ptxas.cpp - NVIDIA's offline assembler, where there is one ---------===//

#include "fa2/Compiler/Ptxas.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

std::optional<std::string> fa2::findPtxas() {
  if (auto path = sys::Process::GetEnv("FA2_PTXAS"); path && !path->empty())
    return path;
  if (auto path = sys::findProgramByName("ptxas"))
    return *path;
  std::vector<std::string> roots = {"/usr/local/cuda"};
  if (auto home = sys::Process::GetEnv("CUDA_HOME"); home && !home->empty())
    roots.insert(roots.begin(), *home);
  for (const std::string &root : roots) {
    SmallString<128> path(root);
    sys::path::append(path, "bin", "ptxas");
    if (sys::fs::can_execute(path))
      return path.str().str();
  }
  return std::nullopt;
}

/// The largest number before `text` in lines such as "Used 168 registers, 0
/// bytes spill stores", one a kernel, or -1.
static int64_t numberBefore(StringRef log, StringRef text) {
  int64_t largest = -1;
  for (size_t at = log.find(text); at != StringRef::npos;
       at = log.find(text, at + 1)) {
    StringRef word = log.take_front(at).rtrim();
    word = word.drop_front(word.find_last_of(" \n\t,") + 1);
    int64_t number;
    if (!word.getAsInteger(10, number))
      largest = std::max(largest, number);
  }
  return largest;
}

static std::string readFile(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

std::optional<fa2::Assembly> fa2::assemble(StringRef ptxas, StringRef ptx,
                                           StringRef arch, std::string &error) {
  SmallString<128> input, output, log;
  int fd;
  if (std::error_code ec =
          sys::fs::createTemporaryFile("fa2", "ptx", fd, input)) {
    error = "cannot create a temporary file: " + ec.message();
    return std::nullopt;
  }
  scope_exit removeInput([&] { sys::fs::remove(input); });
  {
    raw_fd_ostream os(fd, /*shouldClose=*/true);
    os << ptx;
    os.close();
    if (os.has_error()) {
      error = "cannot write " + input.str().str() + ": " + os.error().message();
      os.clear_error();
      return std::nullopt;
    }
  }
  if (sys::fs::createTemporaryFile("fa2", "cubin", output) ||
      sys::fs::createTemporaryFile("fa2", "log", log)) {
    error = "cannot create a temporary file";
    return std::nullopt;
  }
  scope_exit removeRest([&] {
    sys::fs::remove(output);
    sys::fs::remove(log);
  });

  std::string archFlag = ("-arch=" + arch).str();
  StringRef args[] = {ptxas, archFlag, "-v", "-o", output, input};
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  std::string why;
  int status =
      sys::ExecuteAndWait(ptxas, args, std::nullopt, redirects,
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &why);
  std::string text = readFile(log);
  if (status != 0) {
    if (why.empty())
      why = StringRef(text).trim().str();
    if (why.empty())
      why = "exit status " + std::to_string(status) + ", and not a word";
    error = (ptxas + " failed: ").str() + why;
    return std::nullopt;
  }
  Assembly result;
  result.cubin = readFile(output);
  if (!StringRef(result.cubin)
           .starts_with("\x7f"
                        "ELF")) {
    error = (ptxas + " says that it succeeded, but wrote no machine code (" +
             Twine(result.cubin.size()) +
             " bytes): is it ptxas? FA2_PTXAS and PATH choose it")
                .str();
    return std::nullopt;
  }
  result.registers = numberBefore(text, "registers");
  result.stackBytes = numberBefore(text, "bytes stack frame");
  result.spillStoreBytes = numberBefore(text, "bytes spill stores");
  result.spillLoadBytes = numberBefore(text, "bytes spill loads");
  return result;
}
