//===- Mutator.h - edits in an order that is always the same ----*- C++ -*-===//
#ifndef FA2_TEST_FUZZ_MUTATOR_H
#define FA2_TEST_FUZZ_MUTATOR_H

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace fa2::fuzz {

/// Words of PTX, manifests and files, for the mutator and for libFuzzer's
/// dictionary.
const std::vector<std::string_view> &words();

/// One to four edits of one of the seeds: bytes, numbers, words, spans, pieces
/// of another seed.
std::string mutate(const std::vector<std::string> &seeds,
                   std::mt19937_64 &random);

} // namespace fa2::fuzz

#endif // FA2_TEST_FUZZ_MUTATOR_H
