//===- Specification.h - what a user asks the compiler for ------*- C++ -*-===//
#ifndef FA2_COMPILER_SPECIFICATION_H
#define FA2_COMPILER_SPECIFICATION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fa2 {

/// A kernel and, where somebody cares, its schedule: what fa2-compile's flags
/// and the C interface's keys say.
struct Specification {
  std::string pass = "forward"; // or backward
  std::string arch = "sm_80";
  std::string dtype = "bf16"; // bf16 or f16
  int64_t headDim = 128;      // a multiple of 8 from 8 to 256
  int64_t headDimV = 0;       // 0: headDim
  std::string mask = "none";  // causal, causal_top_left, strictly_causal

  // The score program, each part of which may be empty: the cap, then what is
  // added. docs/guide/programs.md says what they compute and read.
  std::string softcap; // a number, or argument
  std::string alibi;   // head
  std::string bias;    // key, query, head, head_key or full

  std::string sink;    // head
  std::string dropout; // argument

  std::string grads;   // what scores are made of, to derive by: name,...
  std::string gradLse; // argument: backward takes lse's gradient, dlse

  // The schedule; what is left out is chosen.
  std::string schedule; // fields of it: name=value,...
  std::string variants; // guard: name=value,...; ... or none
  std::string database; // a file of measured ones, or none (empty: shipped)

  std::string cache; // a folder, or none (empty: the environment's)

  /// Sets a field by its name in manifests ("head_dim"); a field of the
  /// schedule ("block_q") goes into `schedule`. Returns what is wrong with the
  /// name or the value's form, or an empty string.
  std::string set(llvm::StringRef key, llvm::StringRef value);
  /// Sets several: "arch=sm_80 head_dim=64", separated by blanks or commas. A
  /// value that has either stands in single quotes.
  std::string setAll(llvm::StringRef text);
  /// What is wrong with the fields taken together, or an empty string.
  std::string check() const;
  /// The first key that the operation of a module says, and that is not as it
  /// is by default; empty where a module may stand beside the specification.
  llvm::StringRef saidOfOperation() const;
  /// All that says which kernel it is, but for what the database's file holds:
  /// equal texts compile to equal kernels.
  std::string identity() const;
  /// A symbol for the kernel, such as "fa2_forward_bf16_d128_causal".
  std::string kernelName() const { return nameOf(pass); }
  /// The name of the forward function that it is derived from.
  std::string forwardName() const { return nameOf("forward"); }

  struct Key {
    llvm::StringRef name, help;
    /// Operation: a kernel's too, which the operation of a module says itself.
    enum { Kernel, Operation, Schedule, ScheduleField, Output } of;
  };
  /// Every key: those above in their order, then the fields of the schedule.
  static llvm::ArrayRef<Key> keys();

private:
  std::string askFor(llvm::StringRef fields);
  std::string nameOf(const std::string &pass) const;
};

} // namespace fa2

#endif
