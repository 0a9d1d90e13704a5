//===- Journal.cpp - results that survive any end -------------------------===//

#include "Journal.h"

#include "Failure.h"
#include "Files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

using namespace fa2run;
using nlohmann::json;

namespace fa2tune {

namespace {

/// The lines of a text, whose last one may lack its end and is left out then.
std::vector<json> parseLines(const std::string &path, const std::string &text) {
  std::vector<json> lines;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    json line = json::parse(text.substr(begin, end - begin), nullptr,
                            /*allow_exceptions=*/false);
    if (!line.is_object())
      refuse("{}, line {}: it is damaged; without it and what follows the "
             "rest can be read",
             path, lines.size() + 1);
    lines.push_back(std::move(line));
  }
  if (lines.empty())
    return lines;
  auto version = lines[0].find("fa2_tune_results");
  if (version == lines[0].end() || !version->is_number_integer())
    refuse("{} does not hold results of fa2-tune measure", path);
  if (*version != kResultsVersion)
    refuse("{}: its version is {}, this fa2-tune reads {}", path,
           version->dump(), kResultsVersion);
  return lines;
}

} // namespace

std::vector<json> readResults(const std::string &path) {
  std::vector<json> lines = parseLines(path, readFile(path));
  if (lines.empty())
    refuse("{} holds no results", path);
  return lines;
}

Journal::Journal(const std::string &path) : path(path) {
  file = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    refuse("cannot write {}: {}", path, std::strerror(errno));
  if (flock(file, LOCK_EX | LOCK_NB) != 0)
    refuse("{}: another fa2-tune writes it", path);
  std::string text = readFile(path);
  standing = parseLines(path, text);
  size_t whole = text.rfind('\n') + 1; // npos + 1 is 0
  if (whole != text.size() && ftruncate(file, off_t(whole)) != 0)
    refuse("cannot write {}: {}", path, std::strerror(errno));
}

Journal::~Journal() { close(file); }

void Journal::append(const OrderedJson &line) {
  std::string text =
      line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::lock_guard lock(mutex);
  struct stat before;
  if (fstat(file, &before) != 0)
    refuse("cannot write {}: {}", path, std::strerror(errno));
  ssize_t count = write(file, text.data(), text.size());
  if (count == ssize_t(text.size()))
    return;
  int error = count < 0 ? errno : ENOSPC;
  (void)!ftruncate(file, before.st_size);
  refuse("cannot write {}: {}; what was measured before is in it", path,
         std::strerror(error));
}

} // namespace fa2tune
