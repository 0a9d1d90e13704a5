//===- OutputFile.cpp - writing a file whole or not at all ----------------===//

#include "fa2/Compiler/OutputFile.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>

using namespace llvm;
namespace fs = llvm::sys::fs;

namespace {

/// Where the links of a path lead.
struct Place {
  std::string path;
  /// Whether one of them lies in /proc: /dev/stdout is such a path, and its
  /// file is somebody else's open one.
  bool inProc = false;
};

Place follow(std::string path) {
  constexpr int maxLinks = 40; // as the kernel
  Place place{std::move(path)};
  for (int links = 0; links < maxLinks; ++links) {
    place.inProc |= StringRef(place.path).starts_with("/proc/");
    std::error_code ec;
    std::filesystem::path link(place.path),
        target = std::filesystem::read_symlink(link, ec);
    if (ec)
      break;
    // One that is absolute replaces all that is before it.
    place.path = (link.parent_path() / target).string();
  }
  return place;
}

/// Why writing to `os` failed, or an empty string.
std::string writeTo(raw_fd_ostream &os, StringRef text) {
  os << text;
  os.flush();
  if (!os.has_error())
    return "";
  std::string why = os.error().message();
  os.clear_error();
  return why;
}

std::string writeAndClose(int fd, StringRef text) {
  raw_fd_ostream os(fd, /*shouldClose=*/true);
  std::string why = writeTo(os, text);
  os.close();
  if (why.empty() && os.has_error())
    why = os.error().message();
  os.clear_error();
  return why;
}

std::string writeInPlace(StringRef path, StringRef text, fs::OpenFlags flags) {
  std::error_code ec;
  raw_fd_ostream os(path, ec, flags);
  return ec ? ec.message() : writeTo(os, text);
}

/// Creates a file of a new name in `folder`. (TempFile would take a % in the
/// folder's name for a digit to choose.)
std::error_code createBeside(StringRef folder, unsigned mode,
                             SmallString<128> &path, int &fd) {
  constexpr int tries = 100;
  std::error_code ec;
  for (int i = 0; i < tries; ++i) {
    path = folder;
    sys::path::append(
        path,
        formatv(".fa2-{0:x-8}.tmp", sys::Process::GetRandomNumber()).str());
    ec = fs::openFile(path, fd, fs::CD_CreateNew, fs::FA_Write, fs::OF_None,
                      mode);
    if (ec != std::errc::file_exists)
      break;
  }
  return ec;
}

std::string replaceFile(StringRef path, StringRef text) {
  fs::file_status before;
  bool exists = !fs::status(path, before);
  if (exists && !fs::can_write(path))
    return std::make_error_code(std::errc::permission_denied).message();

  SmallString<128> temp;
  int fd;
  if (std::error_code ec = createBeside(sys::path::parent_path(path),
                                        fs::all_read | fs::all_write, temp, fd))
    return exists ? "no file can be made beside it, to take its place when "
                    "complete: " +
                        ec.message()
                  : ec.message();
  sys::RemoveFileOnSignal(temp);
  scope_exit discard([&] {
    fs::remove(temp);
    sys::DontRemoveFileOnSignal(temp);
  });
  std::error_code kept;
  if (exists) {
    // Whose file it was it stays, where we may say so.
    (void)fs::changeFileOwnership(fd, before.getUser(), before.getGroup());
    kept = fs::setPermissions(fd, before.permissions());
  }
  std::string why = writeAndClose(fd, text);
  if (kept)
    return kept.message();
  if (!why.empty())
    return why;
  if (std::error_code ec = fs::rename(temp, path))
    return ec.message();
  discard.release();
  sys::DontRemoveFileOnSignal(temp);
  return "";
}

} // namespace

std::string fa2::writeOwnFile(StringRef path, StringRef text) {
  SmallString<128> temp;
  int fd;
  if (std::error_code ec = createBeside(sys::path::parent_path(path),
                                        fs::all_read | fs::all_write, temp, fd))
    return ec.message();
  std::string why = writeAndClose(fd, text);
  if (why.empty())
    if (std::error_code ec = fs::rename(temp, path))
      why = ec.message();
  if (!why.empty())
    fs::remove(temp);
  return why;
}

std::string fa2::writeFile(StringRef path, StringRef text) {
  if (path == "-")
    return writeInPlace(path, text, fs::OF_None);
  Place place = follow(path.str());
  if (place.inProc)
    return writeInPlace(path, text, fs::OF_Append);
  bool isRegular = fs::is_regular_file(place.path);
  // A link that is left is one of a circle, which opening it says.
  if (fs::is_symlink_file(place.path) || (fs::exists(place.path) && !isRegular))
    return writeInPlace(place.path, text, fs::OF_None);
  return replaceFile(place.path, text);
}
