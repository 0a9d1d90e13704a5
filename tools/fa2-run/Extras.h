//===- Extras.h - what a score program reads --------------------*- C++ -*-===//
//
// The arguments of a program beyond attention's own: drawn, or given on the
// command line. Each tensor lies in poisoned memory with strides of its own;
// some of its extents are 1, and some of its strides 0.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_EXTRAS_H
#define FA2RUN_EXTRAS_H

#include "Configuration.h"
#include "Reference/Program.h"
#include "Runtime.h"

#include <map>
#include <string>
#include <vector>

namespace fa2run {

/// NAME to VALUE or FILE.npy.
using GivenExtras = std::map<std::string, std::string>;

/// How tensors that a program reads lie: drawn strides and extents of 1, for
/// checks; or in one piece as frameworks allocate them, one for all batch
/// entries, of a large tensor the same values again and again, and of f32 a
/// head ALiBi's slopes, for times.
enum class ExtraStrides { Drawn, Packed };

class Extra {
public:
  Extra(const Kernel::ExtraRule &rule, const Configuration &configuration,
        const GivenExtras &given, uint64_t stream, ExtraStrides lie);

  /// Where a kernel puts the gradient of `of`, poisoned.
  static Extra gradientOf(const Extra &of, uint64_t stream, ExtraStrides lie);
  bool hasGradient() const { return rule.hasGradient; }

  const std::string &nameOf() const { return rule.name; }
  fa2rtDType dtype() const { return rule.dtype; }
  size_t bytes() const {
    return storage.empty() ? 0 : std::max(storage.size(), base + span);
  }
  /// Bytes of the elements' beginning that the host has: of a large tensor the
  /// device gets them again and again.
  size_t heldBytes() const { return held; }
  void upload(fa2rtDevice *device);
  bool changedOnDevice() const;
  /// Takes the elements that the device holds, or the host's memory where there
  /// was none. Returns whether all that lies
  /// between them is as it was.
  bool download();
  fa2rtArgument argument() const;
  /// What the reference reads.
  const Operand &operand() const { return values; }

private:
  Extra() = default;
  void drawShape(const Configuration &configuration, Sequence &random);
  void packShape(const Configuration &configuration);
  void drawStrides(Sequence &random, bool mayRepeat);
  void alignStrides(Sequence &random);
  void drawValues(uint64_t stream, int64_t most);
  void fallOverHeads();
  void take(const std::string &text);
  /// Puts the values, as the dtype holds them, into memory.
  void store();
  template <typename Visit> void forEachElement(Visit visit);

  Kernel::ExtraRule rule;
  Operand values;
  std::vector<int64_t> strides; // of values.shape, in elements
  std::vector<uint8_t> storage;
  size_t base = 0, misaligned = 0;
  size_t span = 0; // bytes of the elements
  size_t held = 0; // of them those in `storage`: maybe their beginning alone
  fa2rtDevice *owner = nullptr;
  Buffer buffer;
};

/// One for each of the kernel's, in its order.
std::vector<Extra> makeExtras(const Kernel &kernel,
                              const Configuration &configuration,
                              const GivenExtras &given,
                              ExtraStrides lie = ExtraStrides::Drawn);
Operands operandsOf(const std::vector<Extra> &extras);

} // namespace fa2run

#endif // FA2RUN_EXTRAS_H
