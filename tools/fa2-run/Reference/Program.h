//===- Program.h - score programs on the host -------------------*- C++ -*-===//
//
// The program that stands in the manifest (docs/manifest.md), interpreted in
// float64 for a row or a column of scores at once. Beside each number goes its
// derivative by the score (it is a dual number), and how far a kernel's f32 may
// be from both: bounds of rounding errors.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_REFERENCE_PROGRAM_H
#define FA2RUN_REFERENCE_PROGRAM_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fa2run {

struct Number {
  double value = 0, error = 0, slope = 0, slopeError = 0;
};

/// What a program reads: a tensor's elements in C order, or a scalar.
struct Operand {
  std::vector<int64_t> shape;   // none of a scalar
  std::vector<double> elements; // integers too: they have at most 32 bits
};
using Operands = std::map<std::string, Operand>;

/// The scores that go through a program: those of a row from a column on, or of
/// a column from a row on.
struct ProgramLine {
  int64_t batch = 0, head = 0, row = 0, column = 0;
  bool alongColumn = false;
  const Operands *operands = nullptr;
};

class ScoreProgram {
public:
  /// Reads `specification.program`. Throws Failure, by name, where it is not
  /// such a program or has operations that are not known here.
  static ScoreProgram parse(const nlohmann::json &program);

  /// The scores become the program's. Operands are as checkOperands says.
  void apply(const ProgramLine &line, std::vector<Number> &scores) const;
  /// The same of values, and their slopes where those are wanted.
  template <typename T>
  void apply(const ProgramLine &line, T *scores, int64_t count,
             T *slopes = nullptr) const {
    std::vector<Number> numbers(static_cast<size_t>(count));
    for (size_t j = 0; j < numbers.size(); ++j)
      numbers[j].value = scores[j];
    apply(line, numbers);
    for (size_t j = 0; j < numbers.size(); ++j)
      scores[j] = T(numbers[j].value);
    for (size_t j = 0; slopes && j < numbers.size(); ++j)
      slopes[j] = T(numbers[j].slope);
  }

  /// The same, with slopes by what is read at one place of the program, in the
  /// place of the score's; `elements` are those of the operand that it reads.
  void applyBy(size_t place, const ProgramLine &line,
               std::vector<Number> &scores,
               std::vector<size_t> &elements) const;
  /// The places that read an operand.
  std::vector<size_t> placesOf(const std::string &operand) const;

  const std::vector<std::string> &reads() const { return operandNames; }
  /// Throws Failure where what is read has other ranks (0: a scalar).
  void checkOperands(const std::map<std::string, size_t> &ranks) const;

  /// f32, or an integer of so many bits (index: 32, as kernels have it).
  struct Type {
    bool real = true;
    int bits = 32;
  };
  enum class Op {
    Constant,
    Extract,
    AddF,
    SubF,
    MulF,
    DivF,
    MaximumF,
    MinimumF,
    NegF,
    AbsF,
    Exp,
    Exp2,
    Tanh,
    ApproximateTanh,
    ExtF,
    CmpF,
    CmpI,
    Select,
    AddI,
    SubI,
    MulI,
    DivSI,
    DivUI,
    CeilDivSI,
    CeilDivUI,
    FloorDivSI,
    RemSI,
    RemUI,
    AndI,
    OrI,
    XOrI,
    ShLI,
    ShRSI,
    ShRUI,
    MaxSI,
    MinSI,
    MaxUI,
    MinUI,
    Resize,  // trunci, extsi, index_cast
    ResizeU, // extui, index_castui
    SIToFP,
    UIToFP,
    FPToSI,
    FPToUI,
    Bitcast
  };
  struct Step {
    Op op;
    Type type;
    std::vector<size_t> of;
    double real = 0;       // a constant
    int64_t whole = 0;     // a constant
    std::string predicate; // of comparisons
    std::string operand;   // of an extract: what is read
  };

private:
  /// Slopes are by value `by`: 0 is the score.
  std::vector<Number> run(const ProgramLine &line, std::vector<Number> scores,
                          size_t by, std::vector<size_t> *elements) const;

  std::vector<std::string> operandNames;
  std::vector<Step> steps;
  size_t result = 0;
};

} // namespace fa2run

#endif // FA2RUN_REFERENCE_PROGRAM_H
