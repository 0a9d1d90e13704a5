//===- Tensors.h - a case's tensors in poisoned memory ----------*- C++ -*-===//
//
// Each tensor lies in an allocation of its own, strided and padded; every byte
// that is no element holds 0xFF, a NaN of each dtype. What a kernel reads
// there spoils its result, and what it writes there is seen.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RUN_TENSORS_H
#define FA2RUN_TENSORS_H

#include "Extras.h"
#include "Npy.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fa2run {

/// A tensor in host memory, as the device will see it, and there.
class Tensor {
public:
  Tensor() = default;

  /// [batch, length, heads, dim] of 16-bit elements.
  static Tensor rows(std::string name, fa2rtDType dtype, int64_t batch,
                     int64_t length, int64_t heads, int64_t dim,
                     const Configuration &configuration,
                     const Kernel::TensorRule &rule);
  /// [batch, heads, length] of f32.
  static Tensor vectors(std::string name, int64_t batch, int64_t heads,
                        int64_t length, const Configuration &configuration,
                        const Kernel::TensorRule &rule);

  const std::string &nameOf() const { return name; }
  int64_t extent(size_t d) const { return shape[d]; }
  size_t bytes() const { return storage.size(); }
  int64_t rowCount() const { return batch * length * heads; }
  /// The bytes of row (b, s, h); for an lse its one value.
  uint8_t *row(int64_t b, int64_t s, int64_t h) {
    return storage.data() + rowOffset(b, s, h);
  }
  const uint8_t *row(int64_t b, int64_t s, int64_t h) const {
    return storage.data() + rowOffset(b, s, h);
  }
  int64_t rowBytes() const { return dim * elementBytes; }

  /// Fills everything with the poison.
  void poison();
  /// Puts the host's bytes on the device, allocating there at first.
  void upload(fa2rtDevice *device);
  /// Overwrites the host's bytes with the device's.
  void download();
  /// The device's bytes differ from the host's?
  bool changedOnDevice();
  /// The first byte outside the elements that is not poison, as
  /// "byte 4096 of 8192", or "".
  std::string disturbedPadding() const;

  /// A tensor without elements has no address, as PyTorch gives it; one that
  /// was never uploaded, that of the host's bytes.
  fa2rtArgument argument() const;

private:
  size_t rowOffset(int64_t b, int64_t s, int64_t h) const {
    return size_t(base +
                  (b * strideB + s * strideS + h * strideH) * elementBytes);
  }
  void allocate(int64_t elements, int64_t alignment);

  std::string name;
  fa2rtDType dtype = FA2RT_BF16;
  int64_t batch = 0, length = 0, heads = 0, dim = 1;
  int64_t elementBytes = 2;
  int64_t strideB = 0, strideS = 0, strideH = 0; // elements
  int64_t base = 0;                              // bytes before the elements
  std::vector<int64_t> shape, strides;           // as the kernel has them
  std::vector<uint8_t> storage;
  fa2rtDevice *owner = nullptr;
  Buffer buffer;
};

/// A case's inputs and outputs.
struct Tensors {
  Tensor q, k, v, out, lse;
  // Of a backward case, whose out and lse are inputs.
  Tensor dout, dlse, dq, dk, dv;
  std::vector<Extra> extras;  // what the score program reads
  std::vector<Extra> dextras; // gradients of some of it
};

/// Those that a kernel reads.
template <typename AnyTensors>
auto inputsOf(const Kernel &kernel, AnyTensors &t) {
  std::vector tensors = {&t.q, &t.k, &t.v};
  if (kernel.pass == "backward")
    tensors.insert(tensors.end(), {&t.out, &t.lse, &t.dout});
  if (kernel.hasDlse)
    tensors.push_back(&t.dlse);
  return tensors;
}
/// Those that it writes.
template <typename AnyTensors>
auto outputsOf(const Kernel &kernel, AnyTensors &t) {
  if (kernel.pass == "backward")
    return std::vector{&t.dq, &t.dk, &t.dv};
  return kernel.hasLse ? std::vector{&t.out, &t.lse} : std::vector{&t.out};
}

/// Puts all of them on the device, what the program reads and its gradients
/// too. Returns their bytes there.
size_t upload(fa2rtDevice *device, const Kernel &kernel, Tensors &tensors);

/// What `makeTensors` makes of two kernels is the same where this text is.
std::string describeTensors(const Kernel &kernel);

/// Allocates on the host, draws the inputs, poisons the rest. A backward case's
/// out and lse are left for `fillForward`.
Tensors makeTensors(const Kernel &kernel, const Configuration &configuration,
                    const GivenExtras &given = {},
                    ExtraStrides lie = ExtraStrides::Drawn);

/// Computes out and lse on the host, in float64, rounded.
void fillForward(const Kernel &kernel, const Configuration &configuration,
                 Tensors &tensors);
/// Puts anything harmless there, for a case that is only timed.
void drawForward(const Kernel &kernel, const Configuration &configuration,
                 Tensors &tensors);

/// Replaces a tensor's elements by an array in the order of `layout`; its
/// shape must be the tensor's. Rounds to the kernel's dtype.
void setElements(Tensor &tensor, const Array &array, Precision precision,
                 Layout layout, const std::string &name);

/// The elements in the order of `layout`.
Array getElements(const Tensor &tensor, Precision precision, Layout layout);
Array getVectors(const Tensor &tensor);
/// The one value of a row of vectors.
float valueAt(const Tensor &tensor, int64_t b, int64_t s, int64_t h);

/// A row of 16-bit elements as f32.
void decodeRow(const uint8_t *bytes, Precision precision, int64_t count,
               float *values);

} // namespace fa2run

#endif // FA2RUN_TENSORS_H
