//===- Device.h - what a device does for the runtime ------------*- C++ -*-===//
//
// The one interface between the launch logic and where kernels run. It is
// implemented by Cuda/CudaDevice.cpp, SimDevice.cpp, and a fake in the tests.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RT_LIB_DEVICE_H
#define FA2RT_LIB_DEVICE_H

#include "fa2rt/fa2rt.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fa2rt {

struct DeviceProperties {
  std::string name;
  bool simulated = false;
  int computeCapability = 0; // 90 for 9.0
  int multiprocessors = 0;
  int driverVersion = 0; // 13000 for CUDA 13.0; 0: no driver involved
  int64_t l2Bytes = 0;
  int64_t sharedBytesPerBlock = 0;
  int64_t memoryBytes = 0;
  int ordinal = -1; // as CUDA counts devices; -1: simulated
};

/// A tensor that a launch was given, after all checks but those of its address,
/// which comes with each launch.
struct BoundTensor {
  std::string_view name;
  fa2rtDType dtype = FA2RT_F32;
  fa2rtDirection direction = FA2RT_IN;
  bool present = false;    // false: an optional tensor left out
  bool empty = false;      // it has no elements
  bool sums = false;       // an output that kernels zero and then add to
  int64_t rowMultiple = 1; // elements up to which an output's rows are written
  std::vector<int64_t> shape;
  std::vector<int64_t> strides; // elements
};

struct WorkspaceRegion {
  void *data = nullptr;
  size_t bytes = 0;
};

/// What a tensor map describes: boxes of a tensor [batch, seq, heads, d], whose
/// dims are, innermost first, d, seq, heads, batch; or of another one, of up to
/// as many dims, the rest of which are 1. Elements out of range read
/// as zero. Of a tensor without elements the map is of one, at another tensor's
/// address, and null where no tensor of the launch has elements.
struct TensorMapRequest {
  std::string_view tensor; // for error texts
  void *data = nullptr;
  fa2rtDType dtype = FA2RT_BF16;
  std::array<uint64_t, 4> dims{};    // elements, all >= 1
  std::array<uint64_t, 3> strides{}; // bytes, of seq, heads and batch
  std::array<uint32_t, 4> box{};     // elements
  int swizzle = 0;                   // bytes: 0, 32, 64, 128

  bool operator==(const TensorMapRequest &) const = default;
};

constexpr size_t kTensorMapBytes = 128;
using TensorMapImage = std::array<std::byte, kTensorMapBytes>;

/// One kernel launch, ready to go.
struct KernelLaunch {
  size_t kernel = 0; // index into LoadRequest::kernels
  std::array<uint32_t, 3> grid{};
  std::array<uint32_t, 3> block{};
  std::array<uint32_t, 3> cluster{1, 1, 1};
  uint32_t sharedBytes = 0;
  /// It may start before the kernel in front of it in the list has ended, and
  /// waits for that by itself. Never of a list's first.
  bool programmatic = false;
  /// The parameters' bytes, laid out as the entry's .param space lays them
  /// out, and where each begins. Tensor maps need 64-byte alignment.
  std::span<const std::byte> parameters;
  std::span<const size_t> parameterOffsets;
};

/// A program's launches, in order on one stream.
struct LaunchList {
  std::span<const KernelLaunch> kernels;
  void *stream = nullptr;
  /// What the kernels may touch; the simulator checks every access against it.
  std::span<const BoundTensor> tensors;
  std::span<void *const> addresses; // of the tensors, one each
  WorkspaceRegion workspace;
  bool workspaceZeroed = false; // the kernels may read it before they write
  bool deterministic = false;   // what they add is in one order
};

struct KernelRequest {
  std::string name;
  std::vector<size_t> parameterBytes; // what a launch will pass
  uint32_t threads = 0;
  uint32_t sharedBytes = 0;
  bool guarded = false; // not every launch takes it
};

/// The text and the kernels outlive the module.
struct LoadRequest {
  std::string_view ptx;
  std::span<const std::byte> image; // a cubin, or empty
  std::span<const KernelRequest> kernels;
};

struct KernelAttributes {
  int registers = -1;
  int64_t localBytes = -1;
  int64_t staticSharedBytes = -1;
};

/// A program loaded in one context.
class Module {
public:
  virtual ~Module() = default;
  /// Of a kernel; -1 each while it is not loaded.
  virtual KernelAttributes attributes(size_t kernel) const = 0;
  /// Loads a guarded kernel if it is not loaded yet: a driver that compiles it
  /// takes its time then, and not before. A launch does the same.
  virtual void require(size_t) const {}
  /// Asynchronous, allocates no device memory, never synchronises.
  virtual void launch(const LaunchList &list) const = 0;
  /// JSON of the last launch, or "" where nothing was profiled.
  virtual std::string profile() const { return {}; }
};

class Event {
public:
  virtual ~Event() = default;
  virtual void record(void *stream) = 0;
  /// Waits for this event; milliseconds since `start`.
  virtual float since(const Event &start) = 0;
};

/// What Device::enter did.
struct Entry {
  uint64_t context = 0; // tells contexts apart
  bool changed = false; // another one was current, which leave restores
};

class Device {
public:
  virtual ~Device() = default;
  virtual const DeviceProperties &properties() const = 0;

  /// Makes a context of this device current on the calling thread, keeping
  /// the caller's own when it is of this device. Every enter is paired with a
  /// leave on the same thread.
  virtual Entry enter() = 0;
  virtual void leave(Entry entry) noexcept = 0;

  // The rest is called between enter and leave.
  virtual std::unique_ptr<Module> load(const LoadRequest &request) = 0;
  virtual TensorMapImage encodeTensorMap(const TensorMapRequest &request) = 0;
  /// Whether kernels reach that address, as far as the device can tell.
  virtual bool reaches(const void *) const { return true; }

  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;
  virtual void copyIn(void *to, const void *from, size_t bytes) = 0;
  virtual void copyOut(void *to, const void *from, size_t bytes) = 0;
  virtual void set(void *memory, int value, size_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual std::unique_ptr<Event> createEvent() = 0;
  /// Holds the stream's later work until the returned object dies.
  virtual std::shared_ptr<void> hold(void *stream) = 0;
};

/// Pairs enter and leave.
class ContextScope {
public:
  explicit ContextScope(Device &device)
      : device(device), entry(device.enter()) {}
  ~ContextScope() { device.leave(entry); }
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;
  uint64_t key() const { return entry.context; }

private:
  Device &device;
  Entry entry;
};

/// Opens a device by the name that fa2rtDeviceOpen documents.
std::unique_ptr<Device> openDevice(std::string_view name);

} // namespace fa2rt

#endif // FA2RT_LIB_DEVICE_H
