//===- MmaNumerics.h - Tensor-core arithmetic ------------------*- C++ -*-===//
//
// D = A B + C with 16-bit inputs and f32 accumulation, as the published
// bit-accurate models describe the devices (simulator-rules.md).
//
//===----------------------------------------------------------------------===//
#ifndef FA2_RUNTIME_SIM_MMANUMERICS_H
#define FA2_RUNTIME_SIM_MMANUMERICS_H

#include "Isa.h"

namespace fa2::sim {

/// A is [16][k], B is [k][n], C is [16][n], all row-major; n is a multiple of
/// 8, k of 8, at most 16. `bfloat` chooses bf16, otherwise f16.
/// `capability` 80: groups of 8 products, 24 fractional bits, chained;
/// 90: groups of 16, 25 fractional bits.
void multiplyAdd(const u16 *a, const u16 *b, float *c, unsigned n, unsigned k,
                 bool bfloat, unsigned capability);

/// One element, without any shortcut: the definition that multiplyAdd equals.
float fusedDotAdd(const u16 *a, const u16 *b, unsigned strideB, float c,
                  unsigned terms, bool bfloat, unsigned fractionBits);

} // namespace fa2::sim

#endif // FA2_RUNTIME_SIM_MMANUMERICS_H
