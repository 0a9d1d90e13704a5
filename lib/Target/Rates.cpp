//===- Rates.cpp - how fast a device of a target is -----------------------===//
//
// Tensor cores: the architectures' white papers; mma.sync has 0.63 of wgmma's
// rate on an H200 (docs/measurements). Exponentials and lanes: CUDA C++
// Programming Guide, "Throughput of Native Arithmetic Instructions". An H200's
// were measured by bench/latencies.py
// (docs/measurements/2026-11-24-latencies.md): a copy takes 340 clocks from L2
// and 790 from memory, beside its bytes.
//
//===----------------------------------------------------------------------===//

#include "fa2/Target/Rates.h"
#include "fa2/Target/Target.h"

using namespace fa2;

namespace {
struct Row {
  int computeCapability;
  Rates rates;
};
// clang-format off
constexpr Row kRows[] = {
    // cc        device           SMs  GHz   flops exp lanes shared global latency launch matmul
    { 80, {"A100",               108, 1.41, 2048, 16, 128, 128, 40,  600, 4000, 0}},
    { 86, {"A40",                 84, 1.74, 1024, 16, 128, 128, 32,  500, 4000, 0}},
    { 89, {"L40S",               142, 2.40, 1024, 16, 128, 128, 32,  500, 4000, 0}},
    { 90, {"H200",               132, 1.97, 2580, 16, 128, 128, 40,  700, 5000, 66}},
    {100, {"B200",               148, 1.85, 2580, 16, 128, 128, 40,  800, 5000, 0}},
    {120, {"RTX PRO 6000",       188, 2.40, 1024, 16, 128, 128, 32,  600, 5000, 0}},
};
// clang-format on
constexpr double kWgmmaFlops = 4096;
} // namespace

/// The newest row that is not newer than the target.
Rates fa2::ratesOf(const Target &target) {
  Rates rates = kRows[0].rates;
  for (const Row &row : kRows)
    if (row.computeCapability <= target.computeCapability())
      rates = row.rates;
  if (target.asynchronousMatmul())
    rates.tensorFlops = kWgmmaFlops;
  return rates;
}
