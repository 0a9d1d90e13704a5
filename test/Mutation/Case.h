//===- Case.h - A launch list with data and a reference --------*- C++ -*-===//
//
// A case file says what to launch and how to judge it, one directive a line:
//
//   tensor NAME bf16|f16|f32|i32 FILL EXTENT...     FILL: normal poison zero
//                                                   lse output workspace
//   launch KERNEL GX GY GZ BX BY BZ SHARED [cluster CX CY CZ] [programmatic]
//     pointer NAME [BYTES] | i32 N | i64 N | f32 X
//     map NAME RANK ELEMENT_BYTES SWIZZLE dims... strides... box...
//   forward Q K V O LSE SCALE MASK
//   backward Q K V O LSE DO DQ DK DV SCALE MASK
//                                         MASK: 0 none, 1 causal, 2 top left
//
// "$S" stands for a number given with the file's name (FILE@S=77,H=2); words
// may be products ($S*64) or quotients rounded up (ceil($S,64)).
//
// Tensors of the checks are contiguous [batch * heads, seqlen, head dim].
//
//===----------------------------------------------------------------------===//
#ifndef FA2_TEST_MUTATION_CASE_H
#define FA2_TEST_MUTATION_CASE_H

#include "Simulator.h"

#include <string>
#include <vector>

namespace fa2::sim::mutation {

/// One-sided: q >= 0 and k <= 0. Large: scores so large that what is not
/// rescaled in time overflows.
enum class Data { Normal, OneSided, Large };

using Programs = std::vector<std::shared_ptr<const Module>>;

struct Outcome {
  Result result;
  bool numbersGood = false;
  double worst = 0;    ///< largest error over its bound
  uint64_t digest = 0; ///< of the outputs' bits
};

class Case {
public:
  /// Throws std::runtime_error with the line of the fault.
  explicit Case(const std::string &spec);
  /// Runs the launch list; a kernel is taken from the first module that has it.
  Outcome run(const Programs &programs, const Options &options, Data data);
  /// Errors by row of the unmutated kernel become the measure of all others.
  void calibrate(const Programs &programs, const Options &options);
  std::string name;

private:
  struct Tensor {
    std::string name, type, fill;
    bool inOrder = false; // sums in it are in one order
    std::vector<int64_t> shape;
    std::vector<uint8_t> storage;
    uint8_t *bytes = nullptr; ///< 128-byte aligned
    size_t count = 0;
    unsigned elementBytes = 2;
  };
  struct Parameter {
    std::string kind, tensor;
    int64_t integer = 0;
    double real = 0;
    TensorMap map;
  };
  struct Step {
    Launch launch;
    std::vector<Parameter> parameters;
  };
  struct Judged { ///< an output and its reference
    std::string tensor;
    std::vector<double> reference;
    size_t rowLength = 1;
    std::vector<double> bounds[3]; ///< by row, for each Data
  };
  Tensor &tensor(const std::string &name);
  double get(const Tensor &t, size_t index) const;
  void put(Tensor &t, size_t index, double value);
  void fill(Data data);
  void reference(Data data);
  std::vector<double> rowErrors(const Judged &judged);

  std::vector<Tensor> tensors;
  std::vector<Step> steps;
  std::vector<std::string> check;
  std::vector<Judged> judged[3];
};

} // namespace fa2::sim::mutation

#endif // FA2_TEST_MUTATION_CASE_H
