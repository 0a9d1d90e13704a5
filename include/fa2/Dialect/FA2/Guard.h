//===- Guard.h - the value of an expression of guards -----------*- C++ -*-===//
#ifndef FA2_DIALECT_FA2_GUARD_H
#define FA2_DIALECT_FA2_GUARD_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fa2 {

/// What a name stands for; nothing for an unknown one.
using NumberOf =
    llvm::function_ref<std::optional<int64_t>(llvm::StringRef name)>;

/// The value of an expression in the grammar of docs/manifest.md, all of whose
/// names are known while compiling: conditions of tables of schedules, over a
/// problem and a schedule. On failure `error` says what is wrong, and where.
std::optional<int64_t> evaluate(llvm::StringRef expression, NumberOf numberOf,
                                std::string &error);

} // namespace fa2

#endif
