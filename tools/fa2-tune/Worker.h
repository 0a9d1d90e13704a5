//===- Worker.h - the process that touches the device -----------*- C++ -*-===//
//
// Reads a JSON object a line, answers with one. What a kernel does to it is
// this process's misfortune alone.
//
//===----------------------------------------------------------------------===//
#ifndef FA2TUNE_WORKER_H
#define FA2TUNE_WORKER_H

#include <string>

namespace fa2tune {

/// Serves requests of standard input until it ends:
///   {"do": "hello"}                     the device
///   {"do": "load", "file", "hash"}      made machine code and kept
///   {"do": "check", "file", "hash"}     against the reference in float64
///   {"do": "time", "file", "hash", "shape", "milliseconds"}
/// Machine code is the driver's, which its cache keeps; or where `cubins` names
/// a folder and ptxas is found ptxas's, which is kept there.
int runWorker(const std::string &device, const std::string &cubins);

} // namespace fa2tune

#endif // FA2TUNE_WORKER_H
