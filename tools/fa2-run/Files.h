//===- Files.h - whole files in and out -------------------------*- C++ -*-===//
#ifndef FA2RUN_FILES_H
#define FA2RUN_FILES_H

#include <string>
#include <string_view>

namespace fa2run {

/// Writes a regular file whole or not at all: to a new file beside it, then
/// renamed; a link keeps pointing to it. What is no regular file (a pipe, a
/// terminal, /dev/null) is written in place. Throws Failure.
void writeFile(const std::string &path, std::string_view bytes);

/// Reads a file, or standard input for "-". Throws Failure.
std::string readFile(const std::string &path);

/// Standard streams that the caller has closed are opened on nothing, so that
/// no file takes their numbers: what is written there fails as before.
void guardStandardStreams();

/// Writes out what standard output still holds. Throws Failure where some of
/// it was lost.
void finishOutput();

} // namespace fa2run

#endif // FA2RUN_FILES_H
