//===- FakeCuda.cpp - a libcuda.so.1 for tests ----------------------------===//
//
// The driver functions that the runtime calls, on host memory, with one stream
// worked off by a thread. The kernels naive_forward and tma_copy are computed
// on the host; the environment variable FAKE_CUDA_FAULT makes the first wrong
// in a named way, so that the tests can see fa2-run notice. Others:
// FAKE_CUDA_DEVICES, FAKE_CUDA_VERSION, FAKE_CUDA_CAPABILITY. FAKE_CUDA_OWN:
// kernels reach nothing but what cuMemAlloc gave.
//
//===----------------------------------------------------------------------===//

#include "Cuda/DriverTypes.h"
#include "Reference/Float16.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace fa2rt::cuda;

struct fa2rt::cuda::ContextRecord {
  unsigned long long id = 0;
  DeviceId device = 0;
};
struct fa2rt::cuda::FunctionRecord {
  std::string name;
  ModuleRecord *module = nullptr;
};
struct fa2rt::cuda::ModuleRecord {
  std::string text;
  ContextRecord *context = nullptr;
  std::map<std::string, FunctionRecord> functions;
};
struct fa2rt::cuda::EventRecord {
  std::chrono::steady_clock::time_point at;
};

namespace {

int environmentNumber(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

bool hasFault(const char *name) {
  const char *text = std::getenv("FAKE_CUDA_FAULT");
  return text && std::strcmp(text, name) == 0;
}

/// Works off tasks in order on a thread of its own.
class Queue {
public:
  Queue() : worker([this] { run(); }) {}
  ~Queue() {
    push([this] { stopping = true; });
    worker.join();
  }
  void push(std::function<void()> task) {
    std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return tasks.empty(); });
  }

private:
  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      changed.wait(lock, [&] { return !tasks.empty(); });
      std::function<void()> task = tasks.front(); // stays until it is done
      lock.unlock();
      task();
      lock.lock();
      tasks.pop_front();
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool stopping = false;
  std::thread worker;
};

Queue &queue() {
  static Queue instance;
  return instance;
}

thread_local std::vector<ContextRecord *> contextStack;
std::mutex countMutex;
std::map<std::string, long> counts;
// Under countMutex:
std::map<DevicePointer, size_t> allocations;
void *latestStream = nullptr;

void count(const char *name) {
  std::lock_guard lock(countMutex);
  ++counts[name];
}

ContextRecord *primaryContext(DeviceId device) {
  static ContextRecord contexts[8];
  contexts[device].id = 100 + unsigned(device);
  contexts[device].device = device;
  return &contexts[device];
}

/// The parameters of naive_forward, by position.
struct NaiveArguments {
  const uint16_t *q, *k, *v;
  uint16_t *out;
  float *lse;
  int64_t strides[14];
  int32_t seqlenQ, seqlenK, group;
  float scale;
};

NaiveArguments takeArguments(void **parameters) {
  NaiveArguments a;
  std::memcpy(&a.q, parameters[0], 8);
  std::memcpy(&a.k, parameters[1], 8);
  std::memcpy(&a.v, parameters[2], 8);
  std::memcpy(&a.out, parameters[3], 8);
  std::memcpy(&a.lse, parameters[4], 8);
  for (int i = 0; i < 14; ++i)
    std::memcpy(&a.strides[i], parameters[5 + i], 8);
  std::memcpy(&a.seqlenQ, parameters[19], 4);
  std::memcpy(&a.seqlenK, parameters[20], 4);
  std::memcpy(&a.group, parameters[21], 4);
  std::memcpy(&a.scale, parameters[22], 4);
  return a;
}

/// One row, as test/Unit/Runtime/kernels/naive_forward.cu has it.
void naiveRow(const NaiveArguments &a, int64_t b, int64_t h, int64_t row,
              long launch) {
  const int64_t *s = a.strides;
  int64_t keyHead = h / a.group;
  const uint16_t *q = a.q + b * s[0] + row * s[1] + h * s[2];
  int64_t keys = std::min<int64_t>(row + a.seqlenK - a.seqlenQ + 1, a.seqlenK);
  if (hasFault("mask") && keys > 1)
    --keys;
  if (hasFault("tail") && row == a.seqlenQ - 1)
    ++keys;
  float m = -std::numeric_limits<float>::infinity(), l = 0, sums[8] = {};
  for (int64_t j = 0; j < keys; ++j) {
    const uint16_t *k = a.k + b * s[3] + j * s[4] + keyHead * s[5];
    const uint16_t *v = a.v + b * s[6] + j * s[7] + keyHead * s[8];
    float score = 0;
    for (int d = 0; d < 16; ++d)
      score += fa2run::decodeBF16(q[d]) * fa2run::decodeBF16(k[d]);
    float next = std::max(m, score);
    float keep = std::exp(a.scale * (m - next));
    float p = std::exp(a.scale * (score - next));
    l = l * keep + p;
    m = next;
    for (int d = 0; d < 8; ++d)
      sums[d] = sums[d] * keep + p * fa2run::decodeBF16(v[d]);
  }
  uint16_t *out = a.out + b * s[9] + row * s[10] + h * s[11];
  for (int d = 0; d < 8; ++d)
    out[d] = fa2run::encodeBF16(keys > 0 ? sums[d] / l : 0.0f);
  float &lse = a.lse[b * s[12] + h * s[13] + row];
  lse = keys > 0 ? a.scale * m + std::log(l)
                 : -std::numeric_limits<float>::infinity();
  bool last = row == a.seqlenQ - 1;
  if (hasFault("padding") && last)
    out[8] = 0; // one element past the row
  if (hasFault("unwritten") && last)
    out[7] = 0xffff;
  if (hasFault("nan") && last)
    out[3] = 0x7fc0;
  if (hasFault("lse") && last)
    lse += 1e-3f;
  if (hasFault("empty") && keys <= 0)
    lse = -1e30f;
  if (hasFault("input") && last)
    const_cast<uint16_t *>(q)[0] = 0;
  if (hasFault("unsteady") && launch > 1)
    out[0] ^= 1;
}

void runNaive(const NaiveArguments &a, unsigned gx, unsigned gy, unsigned gz) {
  static std::atomic<long> launches{0};
  long launch = ++launches;
  for (unsigned b = 0; b < gz; ++b)
    for (unsigned h = 0; h < gy; ++h)
      for (int64_t row = 0; row < int64_t(gx) * 32 && row < a.seqlenQ; ++row)
        naiveRow(a, b, h, row, launch);
}

/// What stands in a tensor map of this driver.
struct FakeMap {
  uint64_t type, rank, swizzle, address, dims[5], strides[4];
  uint32_t box[5];
};
static_assert(sizeof(FakeMap) <= 128);

void runTmaCopy(const FakeMap &from, const FakeMap &to) {
  // [batch][heads][seq][d]
  auto element = [](const FakeMap &map, uint64_t b, uint64_t h, uint64_t s) {
    return map.address + b * map.strides[2] + h * map.strides[1] +
           s * map.strides[0];
  };
  for (uint64_t b = 0; b < from.dims[3]; ++b)
    for (uint64_t h = 0; h < from.dims[2]; ++h)
      for (uint64_t s = 0; s < from.dims[1]; ++s)
        std::memcpy(reinterpret_cast<void *>(element(to, b, h, s)),
                    reinterpret_cast<void *>(element(from, b, h, s)),
                    from.dims[0] * 2);
}

Result launchTmaCopy(void **parameters) {
  FakeMap from, to;
  std::memcpy(&from, parameters[0], sizeof from);
  std::memcpy(&to, parameters[2], sizeof to);
  int32_t tiles;
  std::memcpy(&tiles, parameters[3], sizeof tiles);
  const FakeMap box = {kMapBfloat16, 4, kSwizzle128, 0, {}, {}, {64, 24, 1, 1}};
  for (const FakeMap &map : {from, to})
    if (reinterpret_cast<uintptr_t>(parameters[0]) % 64 ||
        map.type != box.type || map.rank != box.rank ||
        map.swizzle != box.swizzle ||
        std::memcmp(map.box, box.box, sizeof box.box) != 0)
      return kInvalidValue;
  if (tiles > 0)
    queue().push([=] { runTmaCopy(from, to); });
  return 0;
}

Result launch(Function function, unsigned gx, unsigned gy, unsigned gz,
              unsigned bx, void **parameters) {
  if (hasFault("launch"))
    return 719; // CUDA_ERROR_LAUNCH_FAILED
  if (function->name == "tma_copy")
    return launchTmaCopy(parameters);
  if (function->name != "naive_forward")
    return 0;
  // As the driver does, take the values before the call returns.
  NaiveArguments arguments = takeArguments(parameters);
  if (bx != 32)
    return kInvalidValue;
  queue().push([=] { runNaive(arguments, gx, gy, gz); });
  return 0;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

/// The stream of the latest launch by cuLaunchKernel.
EXPORT void *fakeCudaStream() {
  std::lock_guard lock(countMutex);
  return latestStream;
}
/// How often a function was called, for the tests.
EXPORT long fakeCudaCount(const char *name) {
  std::lock_guard lock(countMutex);
  return counts[name];
}
EXPORT void *fakeCudaContext(int device, unsigned long long id) {
  static std::deque<ContextRecord> contexts;
  return &contexts.emplace_back(ContextRecord{id, device});
}

EXPORT Result cuGetErrorName(Result result, const char **text) {
  *text = result == kInvalidValue  ? "CUDA_ERROR_INVALID_VALUE"
          : result == 719          ? "CUDA_ERROR_LAUNCH_FAILED"
          : result == 218          ? "CUDA_ERROR_INVALID_PTX"
          : result == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
                                   : "CUDA_ERROR_UNKNOWN";
  return 0;
}
EXPORT Result cuGetErrorString(Result result, const char **text) {
  *text = result == 719   ? "unspecified launch failure"
          : result == 218 ? "a PTX JIT compilation failed"
                          : "invalid argument";
  return 0;
}
EXPORT Result cuInit(unsigned) {
  return environmentNumber("FAKE_CUDA_INIT", 0);
}
EXPORT Result cuDriverGetVersion(int *version) {
  *version = environmentNumber("FAKE_CUDA_VERSION", 13000);
  return 0;
}
EXPORT Result cuDeviceGetCount(int *number) {
  *number = environmentNumber("FAKE_CUDA_DEVICES", 2);
  return 0;
}
EXPORT Result cuDeviceGet(DeviceId *device, int ordinal) {
  *device = ordinal;
  return 0;
}
EXPORT Result cuDeviceGetName(char *name, int bytes, DeviceId) {
  std::strncpy(name, "Fake GPU", size_t(bytes));
  return 0;
}
EXPORT Result cuDeviceGetAttribute(int *value, DeviceAttribute attribute,
                                   DeviceId) {
  int capability = environmentNumber("FAKE_CUDA_CAPABILITY", 90);
  switch (attribute) {
  case kMultiprocessorCount:
    *value = 132;
    return 0;
  case kL2CacheSize:
    *value = 50 << 20;
    return 0;
  case kComputeCapabilityMajor:
    *value = capability / 10;
    return 0;
  case kComputeCapabilityMinor:
    *value = capability % 10;
    return 0;
  case kMaxSharedMemoryPerBlockOptin:
    *value = 232448;
    return 0;
  case kPageableMemoryAccess:
    *value = 0;
    return 0;
  }
  return kInvalidValue;
}
EXPORT Result cuDeviceTotalMem_v2(size_t *bytes, DeviceId) {
  *bytes = size_t(1) << 37;
  return 0;
}
EXPORT Result cuDevicePrimaryCtxRetain(Context *context, DeviceId device) {
  count("cuDevicePrimaryCtxRetain");
  *context = primaryContext(device);
  return 0;
}
EXPORT Result cuDevicePrimaryCtxRelease_v2(DeviceId) {
  count("cuDevicePrimaryCtxRelease");
  return 0;
}
EXPORT Result cuCtxGetCurrent(Context *context) {
  *context = contextStack.empty() ? nullptr : contextStack.back();
  return 0;
}
EXPORT Result cuCtxPushCurrent_v2(Context context) {
  count("cuCtxPushCurrent");
  contextStack.push_back(context);
  return 0;
}
EXPORT Result cuCtxPopCurrent_v2(Context *context) {
  if (contextStack.empty())
    return kInvalidContext;
  *context = contextStack.back();
  contextStack.pop_back();
  return 0;
}
EXPORT Result cuCtxGetDevice(DeviceId *device) {
  if (contextStack.empty())
    return kInvalidContext;
  *device = contextStack.back()->device;
  return 0;
}
EXPORT Result cuCtxGetId(Context context, unsigned long long *id) {
  *id = context->id;
  return 0;
}
EXPORT Result cuCtxSynchronize() {
  count("cuCtxSynchronize");
  queue().drain();
  return 0;
}
EXPORT Result cuThreadExchangeStreamCaptureMode(CaptureMode *mode) {
  static thread_local CaptureMode current{};
  count("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, current);
  return 0;
}
EXPORT Result cuModuleLoadDataEx(ModuleHandle *module, const void *image,
                                 unsigned options, JitOption *names,
                                 void **values) {
  count("cuModuleLoadDataEx");
  if (contextStack.empty())
    return kInvalidContext;
  std::string text(static_cast<const char *>(image));
  if (text.find("not_an_instruction") != std::string::npos) {
    for (unsigned i = 0; i < options; ++i)
      if (names[i] == kJitErrorLogBuffer)
        std::strcpy(static_cast<char *>(values[i]),
                    "ptxas application ptx input, line 1; fatal");
    return 218;
  }
  *module = new ModuleRecord{text, contextStack.back(), {}};
  return 0;
}
EXPORT Result cuModuleUnload(ModuleHandle module) {
  count("cuModuleUnload");
  delete module;
  return 0;
}
EXPORT Result cuModuleGetFunction(Function *function, ModuleHandle module,
                                  const char *name) {
  if (module->text.find(std::string(".entry ") + name) == std::string::npos)
    return 500; // CUDA_ERROR_NOT_FOUND
  module->functions[name] = {name, module};
  *function = &module->functions[name];
  return 0;
}
EXPORT Result cuFuncGetAttribute(int *value, FunctionAttribute attribute,
                                 Function) {
  *value = attribute == kNumRegs ? 40 : attribute == kLocalSizeBytes ? 8 : 0;
  return 0;
}
EXPORT Result cuFuncSetAttribute(Function, FunctionAttribute, int) {
  count("cuFuncSetAttribute");
  return 0;
}
EXPORT Result cuLaunchKernel(Function function, unsigned gx, unsigned gy,
                             unsigned gz, unsigned bx, unsigned, unsigned,
                             unsigned, Stream stream, void **parameters,
                             void **) {
  count("cuLaunchKernel");
  {
    std::lock_guard lock(countMutex);
    latestStream = stream;
  }
  // A function belongs to the context it was loaded in.
  if (contextStack.empty() || contextStack.back() != function->module->context)
    return kInvalidContext;
  return launch(function, gx, gy, gz, bx, parameters);
}
EXPORT Result cuLaunchKernelEx(const LaunchConfig *config, Function function,
                               void **parameters, void **) {
  count("cuLaunchKernelEx");
  if (config->attributeCount == 0)
    return kInvalidValue;
  for (unsigned i = 0; i < config->attributeCount; ++i) {
    const LaunchAttribute &attribute = config->attributes[i];
    if (attribute.id == kLaunchAttributeProgrammaticStreamSerialization &&
        attribute.value.programmaticStreamSerialization == 1)
      count("programmatic");
    else if (attribute.id != kLaunchAttributeClusterDimension ||
             attribute.value.cluster.x != 2)
      return kInvalidValue;
  }
  return launch(function, config->gridX, config->gridY, config->gridZ,
                config->blockX, parameters);
}
EXPORT Result cuLaunchHostFunc(Stream, HostFunction function, void *data) {
  queue().push([=] { function(data); });
  return 0;
}
EXPORT Result cuMemAlloc_v2(DevicePointer *memory, size_t bytes) {
  count("cuMemAlloc");
  if (bytes > (size_t(1) << 37))
    return kOutOfMemory;
  *memory = reinterpret_cast<DevicePointer>(
      std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  std::lock_guard lock(countMutex);
  allocations[*memory] = bytes;
  return 0;
}
EXPORT Result cuPointerGetAttribute(void *value, PointerAttribute attribute,
                                    DevicePointer memory) {
  count("cuPointerGetAttribute");
  if (attribute != kPointerMemoryType)
    return kInvalidValue;
  *static_cast<int *>(value) = 2; // CU_MEMORYTYPE_DEVICE
  if (!std::getenv("FAKE_CUDA_OWN"))
    return 0;
  std::lock_guard lock(countMutex);
  auto after = allocations.upper_bound(memory);
  if (after == allocations.begin())
    return kInvalidValue;
  const auto &[base, bytes] = *std::prev(after);
  return memory - base < bytes ? 0 : kInvalidValue;
}
EXPORT Result cuMemFree_v2(DevicePointer memory) {
  queue().drain();
  {
    std::lock_guard lock(countMutex);
    allocations.erase(memory);
  }
  std::free(reinterpret_cast<void *>(memory));
  return 0;
}
EXPORT Result cuMemcpyHtoD_v2(DevicePointer to, const void *from,
                              size_t bytes) {
  queue().drain();
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return 0;
}
EXPORT Result cuMemcpyDtoH_v2(void *to, DevicePointer from, size_t bytes) {
  queue().drain();
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return 0;
}
EXPORT Result cuMemsetD8_v2(DevicePointer memory, unsigned char value,
                            size_t bytes) {
  queue().drain();
  std::memset(reinterpret_cast<void *>(memory), value, bytes);
  return 0;
}
EXPORT Result cuEventCreate(EventHandle *event, unsigned) {
  *event = new EventRecord;
  return 0;
}
EXPORT Result cuEventDestroy_v2(EventHandle event) {
  queue().drain();
  delete event;
  return 0;
}
EXPORT Result cuEventRecord(EventHandle event, Stream) {
  queue().push([=] { event->at = std::chrono::steady_clock::now(); });
  return 0;
}
EXPORT Result cuEventSynchronize(EventHandle) {
  queue().drain();
  return 0;
}
EXPORT Result cuEventElapsedTime(float *milliseconds, EventHandle start,
                                 EventHandle stop) {
  *milliseconds =
      std::chrono::duration<float, std::milli>(stop->at - start->at).count();
  return 0;
}
// Refuses what cuda.h says is refused.
EXPORT Result cuTensorMapEncodeTiled(
    void *map, TensorMapType type, unsigned rank, void *address,
    const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
    const uint32_t *elementStrides, int interleave, TensorMapSwizzle swizzle,
    int promotion, int fill) {
  count("cuTensorMapEncodeTiled");
  FakeMap made = {};
  made.type = uint64_t(type);
  made.rank = rank;
  made.swizzle = uint64_t(swizzle);
  made.address = reinterpret_cast<uint64_t>(address);
  uint64_t size = type == kMapFloat32 ? 4 : 2;
  constexpr uint64_t spans[] = {UINT64_MAX, 32, 64, 128};
  bool bad =
      hasFault("encode") || reinterpret_cast<uintptr_t>(map) % 64 || !address ||
      made.address % 16 || rank < 1 || rank > 5 || interleave != 0 ||
      promotion < 0 || promotion > 3 || fill != 0 ||
      (type != kMapFloat16 && type != kMapFloat32 && type != kMapBfloat16) ||
      box[0] * size % 16 || box[0] * size > spans[swizzle];
  for (unsigned i = 0; i < rank && !bad; ++i) {
    bad = dims[i] == 0 || dims[i] > uint64_t(1) << 32 || box[i] == 0 ||
          box[i] > 256 || elementStrides[i] != 1 ||
          (i + 1 < rank && (strides[i] % 16 || strides[i] >> 40));
    made.dims[i] = dims[i];
    made.box[i] = box[i];
    if (i + 1 < rank)
      made.strides[i] = strides[i];
  }
  if (bad)
    return kInvalidValue;
  std::memset(map, 0, 128);
  std::memcpy(map, &made, sizeof made);
  return 0;
}
