//===- Npy.h - NumPy's .npy files -------------------------------*- C++ -*-===//
//
// The format of numpy.lib.format, versions 1.0 to 3.0: C order, little-endian
// f2, f4 and f8, and bf16 as raw 2-byte items ("V2", what ml_dtypes writes).
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_NPY_H
#define FA2RUN_NPY_H

#include "Reference/Float16.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fa2run {

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> values; // C order; f8 has been rounded to f32
};

/// The array in a file's bytes; `name` is for error texts. A raw 2-byte array
/// is taken for bf16. Throws Failure.
Array parseNpy(std::string_view bytes, std::string_view name);

/// Reads a file. Throws Failure.
Array readNpy(const std::string &path);

/// The bytes of a file: f16 values as "f2", others as "f4" (bf16 fits f4
/// exactly).
std::string formatNpy(const Array &array, bool asF16);

} // namespace fa2run

#endif // FA2RUN_NPY_H
