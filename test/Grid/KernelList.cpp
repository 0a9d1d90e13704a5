//===- KernelList.cpp - which kernels the grid runs -----------------------===//

#include "KernelList.h"

#include "Failure.h"
#include "Files.h"
#include "Random.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>

using fa2run::refuse;

namespace fa2grid {

namespace {

std::string trimmed(const std::string &text) {
  size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos)
    return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

/// Calls visit(text, number) for each line that is not empty or a comment.
template <typename Visit> void forEachLine(const std::string &path, Visit v) {
  std::istringstream lines(fa2run::readFile(path));
  std::string line;
  for (unsigned number = 1; std::getline(lines, line); ++number)
    if (std::string text = trimmed(line); !text.empty() && text[0] != '#')
      v(text, number);
}

bool isFile(const std::string &text) { return text.ends_with(".ptx"); }

/// Flags, of which the last may be the operation's file, beside the list.
std::string withFile(const std::string &text,
                     const std::filesystem::path &folder) {
  if (!text.ends_with(".mlir"))
    return text;
  size_t file = text.rfind(' ') + 1;
  return text.substr(0, file) + (folder / text.substr(file)).string();
}

} // namespace

uint64_t KernelEntry::seed() const {
  uint64_t seed = 0;
  for (unsigned char c : text)
    seed = fa2run::scramble(seed ^ c);
  return seed;
}

std::vector<KernelEntry> readKernelList(const std::string &path) {
  std::vector<KernelEntry> entries;
  auto folder = std::filesystem::path(path).parent_path();
  forEachLine(path, [&](const std::string &text, unsigned number) {
    if (isFile(text))
      entries.push_back({(folder / text).string(), number});
    else if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_= .'<>():,;!&|%/") ==
             text.npos)
      entries.push_back({text, number, withFile(text, folder)});
    else
      refuse("{}, line {}: expected flags of fa2-compile, with an operation's "
             "file behind them or none, or a .ptx file, got '{}'",
             path, number, text);
  });
  if (entries.empty())
    refuse("{}: no kernels", path);
  return entries;
}

std::string ptxOf(const KernelEntry &entry, const std::string &compiler) {
  if (isFile(entry.text))
    return fa2run::readFile(entry.text);
  std::string command = "'" + compiler + "' " + entry.flags + " 2>&1";
  FILE *pipe = popen(command.c_str(), "r");
  if (!pipe)
    refuse("cannot run {}", command);
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (size_t got = fread(buffer.data(), 1, buffer.size(), pipe))
    text.append(buffer.data(), got);
  if (pclose(pipe) != 0)
    refuse("{} failed: {}", command, text);
  // Warnings come first.
  size_t begin = text.find("// fa2-manifest-begin");
  if (begin == text.npos)
    refuse("{} wrote no manifest: {}", command, text.substr(0, 1000));
  return text.substr(begin);
}

std::vector<Exemption> readExemptions(const std::string &path) {
  std::vector<Exemption> exemptions;
  forEachLine(path, [&](const std::string &text, unsigned number) {
    size_t first = text.find(" | "),
           second = first == text.npos ? first : text.find(" | ", first + 3);
    if (second == text.npos)
      refuse("{}, line {}: expected KERNEL | INSTRUCTION | REASON", path,
             number);
    try {
      exemptions.push_back(
          {std::regex(trimmed(text.substr(0, first))),
           std::regex(trimmed(text.substr(first + 3, second - first - 3))),
           trimmed(text.substr(second + 3)), number});
    } catch (const std::regex_error &error) {
      refuse("{}, line {}: {}", path, number, error.what());
    }
  });
  return exemptions;
}

std::string normalised(const std::string &line) {
  static const std::regex registers(R"((%[a-z]+)\d+)"), labels(R"(\$L\w+)"),
      blanks(R"(\s+)");
  std::string text = line.substr(0, line.find("//"));
  text = std::regex_replace(text, registers, "$1");
  text = std::regex_replace(text, labels, "L");
  return trimmed(std::regex_replace(text, blanks, " "));
}

} // namespace fa2grid
