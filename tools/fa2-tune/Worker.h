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
///   {"do": "load", "file", "hash"}      compiled by the driver, into its cache
///   {"do": "check", "file", "hash"}     against the reference in float64
///   {"do": "time", "file", "hash", "shape", "milliseconds"}
int runWorker(const std::string &device);

} // namespace fa2tune

#endif // FA2TUNE_WORKER_H
