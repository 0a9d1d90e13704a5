//===- ObjectCall.cpp - launches on Python's tensors ----------------------===//
//
// A call from Python gives a dict of objects. Tensors are read by DLPack's C
// exchange functions, which fill a DLTensor and own what it points to. Names
// and values follow dlpack.h, which keeps them for as long as its major version
// is 1.
//
//===----------------------------------------------------------------------===//

#include "ObjectCall.h"

#include "Error.h"
#include "Prepared.h"
#include "Scratch.h"

#include <algorithm>

namespace fa2rt {

namespace {

enum DLDeviceType : int32_t { kDLCPU = 1, kDLCUDA = 2 };
enum DLDataTypeCode : uint8_t { kDLInt = 0, kDLFloat = 2, kDLBfloat = 4 };

struct DLTensor {
  void *data;
  DLDeviceType deviceType;
  int32_t deviceId;
  int32_t ndim;
  DLDataTypeCode code;
  uint8_t bits;
  uint16_t lanes;
  const int64_t *shape;
  const int64_t *strides; // elements
  uint64_t byteOffset;

  void *address() const { return static_cast<std::byte *>(data) + byteOffset; }
};
static_assert(sizeof(DLTensor) == 48);

/// The objects' tensors, in their order; empty where there is a scalar.
using Tensors = std::pmr::vector<std::optional<DLTensor>>;

/// Of the values that were bound to tensors. False where the names are others,
/// or a value cannot be read.
bool readTensors(const fa2rtObjectCall &call, void *dict,
                 const fa2rtPrepared &prepared, Tensors &tensors) {
  const Bindings &bound = prepared.plan.bound();
  ptrdiff_t position = 0;
  void *name = nullptr, *value = nullptr;
  while (call.next(dict, &position, &name, &value)) {
    size_t i = tensors.size();
    if (i == call.count || i == bound.order.size() || name != call.names[i])
      return false;
    std::optional<DLTensor> &tensor = tensors.emplace_back();
    if (bound.tensors[bound.order[i]].present &&
        call.read(value, &tensor.emplace()) != 0)
      return false;
  }
  return true;
}

bool isOf(const DLTensor &tensor, fa2rtDType dtype) {
  DLDataTypeCode code = dtype == FA2RT_BF16                        ? kDLBfloat
                        : dtype == FA2RT_F16 || dtype == FA2RT_F32 ? kDLFloat
                                                                   : kDLInt;
  return tensor.code == code && tensor.bits == 8 * dtypeBytes(dtype) &&
         tensor.lanes == 1;
}

bool isOn(const DLTensor &tensor, const DeviceProperties &device) {
  if (device.simulated)
    return tensor.deviceType == kDLCPU;
  return tensor.deviceType == kDLCUDA && tensor.deviceId == device.ordinal;
}

/// `headsFirst`: an object of rank 4 has dimensions 1 and 2 exchanged.
bool hasLayout(const DLTensor &tensor, const BoundTensor &bound,
               bool headsFirst) {
  auto same = [&](const int64_t *values, const std::vector<int64_t> &wanted) {
    if (!values)
      return false;
    if (!headsFirst || wanted.size() != 4)
      return std::equal(wanted.begin(), wanted.end(), values);
    return values[0] == wanted[0] && values[1] == wanted[2] &&
           values[2] == wanted[1] && values[3] == wanted[3];
  };
  return size_t(tensor.ndim) == bound.shape.size() &&
         isOf(tensor, bound.dtype) && same(tensor.shape, bound.shape) &&
         same(tensor.strides, bound.strides);
}

/// Whether the tensors lie on the device and have the layouts that were bound.
bool matches(const Tensors &tensors, const fa2rtPrepared &prepared,
             bool headsFirst) {
  const Bindings &bound = prepared.plan.bound();
  const DeviceProperties &device = prepared.program.device().properties();
  if (tensors.size() != bound.order.size())
    return false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const BoundTensor &wanted = bound.tensors[bound.order[i]];
    if (tensors[i].has_value() != wanted.present)
      return false;
    if (wanted.present && !(isOn(*tensors[i], device) &&
                            hasLayout(*tensors[i], wanted, headsFirst)))
      return false;
  }
  return true;
}

/// Other threads of the objects' interpreter run as long as it lives.
class Released {
public:
  explicit Released(const fa2rtObjectCall &call)
      : acquire(call.acquire), state(call.release ? call.release() : nullptr) {}
  ~Released() {
    if (acquire)
      acquire(state);
  }
  Released(const Released &) = delete;
  Released &operator=(const Released &) = delete;

private:
  void (*acquire)(void *);
  void *state;
};

void launch(const fa2rtObjectCall &call, const fa2rtPrepared &prepared,
            const Tensors &tensors, WorkspaceRegion workspace, void *stream) {
  std::pmr::vector<void *> addresses(tensors.get_allocator());
  for (const std::optional<DLTensor> &tensor : tensors)
    addresses.push_back(tensor ? tensor->address() : nullptr);
  Released released(call);
  prepared.program.launch(prepared.plan, addresses, workspace, stream);
}

} // namespace

bool launchObjects(const fa2rtObjectCall &call, void *dict,
                   WorkspaceRegion workspace, void *stream) {
  Scratch scratch;
  Tensors tensors(scratch.get());
  for (size_t i = 0; i < call.prepared_count; ++i) {
    const fa2rtPrepared *prepared = call.prepared[i];
    if (!prepared)
      fail(FA2RT_ERROR_ARGUMENT, "'prepared[{}]' is null", i);
    if (i == 0 && !readTensors(call, dict, *prepared, tensors))
      return false;
    if (matches(tensors, *prepared, call.heads_first != 0)) {
      launch(call, *prepared, tensors, workspace, stream);
      return true;
    }
  }
  return false;
}

} // namespace fa2rt
