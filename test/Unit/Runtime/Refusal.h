//===- Refusal.h - what fa2-run's library refuses ---------------*- C++ -*-===//
#ifndef FA2_TEST_UNIT_RUNTIME_REFUSAL_H
#define FA2_TEST_UNIT_RUNTIME_REFUSAL_H

#include "Failure.h"

#include <gtest/gtest.h>

#include <string>

namespace fa2run::test {

/// The text of the Failure that `body` throws, which must be of bad input.
template <typename Body> std::string refusalOf(Body body) {
  try {
    body();
  } catch (const Failure &failure) {
    EXPECT_EQ(failure.code, kBadInput);
    return failure.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

inline void expectContains(const std::string &text, const std::string &part,
                           const char *file, int line) {
  if (text.find(part) == std::string::npos)
    ADD_FAILURE_AT(file, line) << "no '" << part << "' in: " << text;
}
#define EXPECT_CONTAINS(text, part)                                            \
  ::fa2run::test::expectContains(text, part, __FILE__, __LINE__)

} // namespace fa2run::test

#endif // FA2_TEST_UNIT_RUNTIME_REFUSAL_H
