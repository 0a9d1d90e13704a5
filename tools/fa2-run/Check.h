//===- Check.h - a case's outputs against the reference ---------*- C++ -*-===//
#ifndef FA2RUN_CHECK_H
#define FA2RUN_CHECK_H

#include "Reference/Accuracy.h"
#include "Reference/TensorCore.h"
#include "Tensors.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fa2run {

enum class CheckMode { Auto, Full, Sample, None };

/// Which rows of which heads are compared with the reference.
struct RowSample {
  struct HeadRows {
    int64_t batch = 0, head = 0;
    std::vector<int64_t> rows; // ascending
  };
  std::vector<HeadRows> heads;
  bool everything = true;
  int64_t rowsChecked = 0, rowsTotal = 0;
};

/// All rows when the reference's work (multiply-adds) is within `budget`, else
/// seeded heads and rows: first, last, both sides of tile edges, and random.
RowSample chooseRows(const Kernel &kernel, const Configuration &configuration,
                     CheckMode mode, double budget);

/// Of dq, dk or dv, over all heads.
struct GradientVerdict {
  GradientVerdict(std::string name) : name(std::move(name)) {}
  std::string name;
  double maxError = 0, maxStandardError = 0, worstRatio = 0;
  struct {
    int64_t batch = -1, head = -1, row = -1, column = -1;
  } worst; // what has the largest ratio
};

struct CheckResult {
  bool passed = true;
  HeadVerdict worst; // the worst head's
  int64_t worstBatch = -1, worstHead = -1;
  double maxError = 0, maxStandardError = 0, lseMaxError = 0, lseWorstRatio = 0;
  int64_t failedRows = 0, emptyRows = 0;
  int64_t unwritten = 0, notNumbers = 0;  // elements of out, and of lse
  std::vector<std::string> failures;      // at most a few
  std::vector<GradientVerdict> gradients; // of a backward case
  int64_t rowsCompared = 0;               // of it
};

/// The same for a backward case: the heads are those of keys, with all of the
/// query heads of their groups.
RowSample chooseGradientRows(const Kernel &kernel,
                             const Configuration &configuration, CheckMode mode,
                             double budget);
CheckResult checkGradients(const Kernel &kernel,
                           const Configuration &configuration,
                           const Tensors &tensors, const RowSample &sample,
                           TensorCore core);

/// Of what the score program reads: all elements, to all of which all rows may
/// contribute.
void checkExtraGradients(const Kernel &kernel,
                         const Configuration &configuration,
                         const Tensors &tensors, TensorCore core,
                         CheckResult &result);

/// Whether the scores that the program makes of the drawn ones are within f32's
/// range, in rows of a sample: beyond, no kernel has a result. In backward they
/// stay where the program's roundings leave something known of exp(x - lse).
bool scoresFitFloat32(const Kernel &kernel, const Configuration &configuration,
                      const Tensors &tensors);

/// Counts the elements of 16 bits that were never written or are no numbers,
/// and says so.
void scanTensor(const Tensor &tensor, Precision precision, CheckResult &result);
void reportScan(CheckResult &result);

/// Compares the downloaded outputs. Every element of the outputs, sampled or
/// not, must have been written and be a number (lse: not NaN). `core` is the
/// device's.
CheckResult checkOutputs(const Kernel &kernel,
                         const Configuration &configuration,
                         const Tensors &tensors, const RowSample &sample,
                         TensorCore core);

} // namespace fa2run

#endif // FA2RUN_CHECK_H
