//===- ScoreForms.h - common score programs by name -------------*- C++ -*-===//
#ifndef FA2_LIB_COMPILER_SCOREFORMS_H
#define FA2_LIB_COMPILER_SCOREFORMS_H

#include "fa2/Compiler/Specification.h"
#include "fa2/Dialect/FA2/FA2.h"

namespace fa2 {

/// An operand that a program reads.
struct ScoreOperand {
  std::string name;
  mlir::Type type;
};

/// What the program that a specification names reads, in its order; `context`
/// is for the types.
std::vector<ScoreOperand> scoreOperands(mlir::MLIRContext *context,
                                        const Specification &spec);

/// Fills the operation's score region with that program, if there is one: the
/// cap first, then what is added.
void buildScore(AttentionOp op, const Specification &spec);

/// What is wrong with how a specification names a program, or an empty string.
std::string checkScore(const Specification &spec);

} // namespace fa2

#endif
