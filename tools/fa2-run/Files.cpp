//===- Files.cpp - whole files in and out ---------------------------------===//

#include "Files.h"

#include "Failure.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>

namespace fa2run {

namespace {

/// Writes and closes; the error's number, 0 for none.
int writeAndClose(int file, std::string_view bytes) {
  int error = 0;
  while (!bytes.empty() && !error) {
    ssize_t count = write(file, bytes.data(), bytes.size());
    if (count > 0)
      bytes.remove_prefix(size_t(count));
    else if (count == 0 || errno != EINTR)
      error = count == 0 ? EIO : errno;
  }
  if (close(file) != 0 && !error)
    error = errno;
  return error;
}

/// A file that did not exist: nobody can have put a link in its place.
int openNew(const std::string &beside, std::string &path) {
  std::random_device random;
  int file = -1;
  for (int tries = 0; file < 0 && tries < 100; ++tries) {
    path = fmt::format("{}.{:08x}{:08x}.tmp", beside, random(), random());
    file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST)
      break;
  }
  return file;
}

/// The error's number, 0 for none.
int replaceFile(const std::string &path, const struct stat *old,
                std::string_view bytes) {
  std::string temporary;
  int file = openNew(path, temporary);
  if (file < 0)
    return errno;
  int modeError = old && fchmod(file, old->st_mode & 07777) != 0 ? errno : 0;
  int error = writeAndClose(file, bytes);
  error = modeError ? modeError : error;
  if (!error && std::rename(temporary.c_str(), path.c_str()) != 0)
    error = errno;
  if (error)
    unlink(temporary.c_str());
  return error;
}

} // namespace

void writeFile(const std::string &path, std::string_view bytes) {
  struct stat old;
  bool exists = stat(path.c_str(), &old) == 0;
  int error = 0;
  if (exists && !S_ISREG(old.st_mode)) {
    int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    error = file < 0 ? errno : writeAndClose(file, bytes);
  } else {
    std::string target = path;
    if (char *resolved = exists ? realpath(path.c_str(), nullptr) : nullptr) {
      target = resolved;
      std::free(resolved);
    }
    error = replaceFile(target, exists ? &old : nullptr, bytes);
  }
  if (error)
    refuse("cannot write {}: {}", path, std::strerror(error));
}

std::string readFile(const std::string &path) {
  if (path == "-")
    return {std::istreambuf_iterator<char>(std::cin), {}};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (!file || !(bytes << file.rdbuf())) {
    // An empty file makes the insertion fail, without an error.
    if (file.is_open() && errno == 0)
      return {};
    refuse("cannot read {}: {}", path,
           errno ? std::strerror(errno) : "it cannot be opened");
  }
  return bytes.str();
}

void guardStandardStreams() {
  // Open for the other direction only: reading and writing fail with EBADF.
  for (int stream : {0, 1, 2})
    if (fcntl(stream, F_GETFD) < 0)
      (void)!open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

void finishOutput() {
  errno = 0;
  std::cout.flush();
  bool lost = !std::cout || std::fflush(stdout) != 0 || std::ferror(stdout);
  if (lost)
    refuse("cannot write standard output: {}",
           errno ? std::strerror(errno) : "some of it was lost");
}

} // namespace fa2run
