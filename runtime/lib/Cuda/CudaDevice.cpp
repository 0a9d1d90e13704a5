//===- CudaDevice.cpp - a CUDA device -------------------------------------===//

#include "Cuda/CudaDevice.h"

#include "Cuda/CudaModule.h"
#include "Cuda/Driver.h"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace fa2rt::cuda {

namespace {

DevicePointer address(const void *memory) {
  return reinterpret_cast<DevicePointer>(memory);
}

class CudaEvent : public Event {
public:
  explicit CudaEvent(const Driver &driver) : driver(driver) {
    driver.check(driver.eventCreate(&handle, 0), "cuEventCreate");
  }
  ~CudaEvent() override { driver.eventDestroy(handle); }

  void record(void *stream) override {
    driver.check(driver.eventRecord(handle, static_cast<Stream>(stream)),
                 "cuEventRecord");
  }
  float since(const Event &start) override {
    driver.check(driver.eventSynchronize(handle), "cuEventSynchronize");
    float milliseconds = 0;
    driver.check(driver.eventElapsedTime(
                     &milliseconds,
                     static_cast<const CudaEvent &>(start).handle, handle),
                 "cuEventElapsedTime");
    return milliseconds;
  }

private:
  const Driver &driver;
  EventHandle handle = nullptr;
};

/// A host function on the stream that returns when the gate opens. Both the
/// holder and the pending callback own it.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
  std::shared_ptr<Gate> self; // the callback's share

  static void wait(void *data) {
    auto *gate = static_cast<Gate *>(data);
    std::shared_ptr<Gate> keep;
    std::unique_lock lock(gate->mutex);
    gate->opened.wait(lock, [&] { return gate->open; });
    keep = std::move(gate->self);
    lock.unlock();
  }
  void release() {
    std::lock_guard lock(mutex);
    open = true;
    opened.notify_all();
  }
};

class CudaDevice : public Device {
public:
  explicit CudaDevice(std::optional<int> ordinal) : driver(Driver::get()) {
    int count = 0;
    driver.check(driver.deviceGetCount(&count), "cuDeviceGetCount");
    if (count == 0)
      fail(FA2RT_ERROR_DEVICE, "the CUDA driver sees no device");
    if (ordinal && (*ordinal < 0 || *ordinal >= count))
      fail(FA2RT_ERROR_DEVICE,
           "cuda:{} does not exist; the driver sees {} device{} (0 to {})",
           *ordinal, count, count == 1 ? "" : "s", count - 1);
    if (ordinal)
      driver.check(driver.deviceGet(&id, *ordinal), "cuDeviceGet({})",
                   *ordinal);
    else if (std::optional<DeviceId> current = currentDevice())
      id = *current;
    else
      driver.check(driver.deviceGet(&id, 0), "cuDeviceGet(0)");
    readProperties();
  }

  ~CudaDevice() override {
    if (primary)
      driver.primaryRelease(id);
  }

  const DeviceProperties &properties() const override { return info; }

  Entry enter() override {
    Context context = nullptr;
    driver.check(driver.ctxGetCurrent(&context), "cuCtxGetCurrent");
    DeviceId current = 0;
    bool own = context && driver.ctxGetDevice(&current) == 0 && current == id;
    if (!own) {
      context = retainPrimary();
      driver.check(driver.ctxPushCurrent(context), "cuCtxPushCurrent");
    }
    unsigned long long key = reinterpret_cast<uintptr_t>(context);
    // An address may be used again after its context is destroyed; an id is
    // not.
    if (driver.ctxGetId)
      driver.ctxGetId(context, &key);
    return {key, !own};
  }

  void leave(Entry entry) noexcept override {
    Context popped;
    if (entry.changed)
      driver.ctxPopCurrent(&popped);
  }

  std::unique_ptr<Module> load(const LoadRequest &request) override {
    Context context = nullptr;
    driver.check(driver.ctxGetCurrent(&context), "cuCtxGetCurrent");
    return loadModule(driver, context, request);
  }

  TensorMapImage encodeTensorMap(const TensorMapRequest &request) override {
    if (!driver.tensorMapEncodeTiled)
      fail(FA2RT_ERROR_DEVICE,
           "{}: tensor maps need a driver for CUDA 12.0 or later",
           request.tensor);
    TensorMapType type = request.dtype == FA2RT_BF16  ? kMapBfloat16
                         : request.dtype == FA2RT_F16 ? kMapFloat16
                         : request.dtype == FA2RT_I32 ? kMapInt32
                                                      : kMapFloat32;
    TensorMapSwizzle swizzle = request.swizzle == 128  ? kSwizzle128
                               : request.swizzle == 64 ? kSwizzle64
                               : request.swizzle == 32 ? kSwizzle32
                                                       : kSwizzleNone;
    const std::array<uint32_t, 4> ones = {1, 1, 1, 1};
    // The driver refuses a null address, of which no kernel copies.
    void *data =
        request.data ? request.data : reinterpret_cast<void *>(uintptr_t(256));
    alignas(64) TensorMapImage image{};
    driver.check(
        driver.tensorMapEncodeTiled(
            image.data(), type, unsigned(request.dims.size()), data,
            request.dims.data(), request.strides.data(), request.box.data(),
            ones.data(), kInterleaveNone, swizzle, kPromotionL2_128,
            kFillZeros),
        "cuTensorMapEncodeTiled({}: dims [{}], byte strides [{}], box [{}], "
        "swizzle {})",
        request.tensor, fmt::join(request.dims, ", "),
        fmt::join(request.strides, ", "), fmt::join(request.box, ", "),
        request.swizzle);
    return image;
  }

  bool reaches(const void *memory) const override {
    int type = 0;
    return pageableAccess ||
           driver.pointerGetAttribute(&type, kPointerMemoryType,
                                      address(memory)) != kInvalidValue;
  }

  void *allocate(size_t bytes) override {
    DevicePointer memory = 0;
    driver.check(driver.memAlloc(&memory, bytes ? bytes : 1), "cuMemAlloc({})",
                 bytes);
    return reinterpret_cast<void *>(memory);
  }
  void release(void *memory) override {
    driver.check(driver.memFree(address(memory)), "cuMemFree({})", memory);
  }
  void copyIn(void *to, const void *from, size_t bytes) override {
    if (bytes)
      driver.check(driver.memcpyHtoD(address(to), from, bytes),
                   "cuMemcpyHtoD({}, {} bytes)", to, bytes);
  }
  void copyOut(void *to, const void *from, size_t bytes) override {
    if (bytes)
      driver.check(driver.memcpyDtoH(to, address(from), bytes),
                   "cuMemcpyDtoH({}, {} bytes)", from, bytes);
  }
  void set(void *memory, int value, size_t bytes) override {
    if (bytes)
      driver.check(driver.memsetD8(address(memory),
                                   static_cast<unsigned char>(value), bytes),
                   "cuMemsetD8({}, {} bytes)", memory, bytes);
  }
  void synchronize() override {
    driver.check(driver.ctxSynchronize(), "cuCtxSynchronize");
  }
  std::unique_ptr<Event> createEvent() override {
    return std::make_unique<CudaEvent>(driver);
  }

  std::shared_ptr<void> hold(void *stream) override {
    auto gate = std::make_shared<Gate>();
    gate->self = gate;
    Result result = driver.launchHostFunc(static_cast<Stream>(stream),
                                          &Gate::wait, gate.get());
    if (result)
      gate->self.reset();
    driver.check(result, "cuLaunchHostFunc");
    return std::shared_ptr<void>(gate.get(),
                                 [gate](void *) { gate->release(); });
  }

private:
  std::optional<DeviceId> currentDevice() const {
    DeviceId current = 0;
    Context context = nullptr;
    if (driver.ctxGetCurrent(&context) != 0 || !context ||
        driver.ctxGetDevice(&current) != 0)
      return std::nullopt;
    return current;
  }

  Context retainPrimary() {
    std::lock_guard lock(primaryMutex);
    if (!primary)
      driver.check(driver.primaryRetain(&primary, id),
                   "cuDevicePrimaryCtxRetain({})", id);
    return primary;
  }

  int attribute(DeviceAttribute attribute) const {
    int value = 0;
    driver.check(driver.deviceGetAttribute(&value, attribute, id),
                 "cuDeviceGetAttribute({})", int(attribute));
    return value;
  }

  void readProperties() {
    char name[128] = {};
    driver.check(driver.deviceGetName(name, sizeof name - 1, id),
                 "cuDeviceGetName");
    size_t memory = 0;
    driver.check(driver.deviceTotalMem(&memory, id), "cuDeviceTotalMem");
    info.name = name;
    info.computeCapability = 10 * attribute(kComputeCapabilityMajor) +
                             attribute(kComputeCapabilityMinor);
    info.multiprocessors = attribute(kMultiprocessorCount);
    info.l2Bytes = attribute(kL2CacheSize);
    info.sharedBytesPerBlock = attribute(kMaxSharedMemoryPerBlockOptin);
    info.driverVersion = driver.version;
    info.ordinal = id; // the driver's ids count devices
    pageableAccess = attribute(kPageableMemoryAccess) != 0;
    info.memoryBytes = int64_t(memory);
  }

  const Driver &driver;
  DeviceId id = 0;
  DeviceProperties info;
  bool pageableAccess = false; // kernels reach any host memory
  std::mutex primaryMutex;
  Context primary = nullptr;
};

} // namespace

std::unique_ptr<Device> openCudaDevice(std::optional<int> ordinal) {
  return std::make_unique<CudaDevice>(ordinal);
}

int driverVersion() { return Driver::get().version; }

int deviceCount() {
  const Driver &driver = Driver::get();
  int count = 0;
  driver.check(driver.deviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

} // namespace fa2rt::cuda
