//===- CudaTest.cpp - the CUDA device on a fake driver --------------------===//
//
// Run with LD_LIBRARY_PATH at the fake libcuda.so.1 (the CMake file does).
//
//===----------------------------------------------------------------------===//

#include "Cuda/DriverTypes.h"
#include "TmaCopy.h"

#include <dlfcn.h>

#include <cstdlib>
#include <thread>

using namespace fa2rt;
using namespace fa2rt::test;

namespace {

template <typename Function> Function fakeFunction(const char *name) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  void *symbol = library ? dlsym(library, name) : nullptr;
  EXPECT_NE(symbol, nullptr) << name;
  return reinterpret_cast<Function>(symbol);
}

long callsOf(const char *name) {
  return fakeFunction<long (*)(const char *)>("fakeCudaCount")(name);
}

struct Opened {
  fa2rtDevice *device = nullptr;
  explicit Opened(const char *name = "cuda") {
    EXPECT_EQ(fa2rtDeviceOpen(name, &device), FA2RT_OK) << fa2rtLastError();
  }
  ~Opened() { fa2rtDeviceClose(device); }
};

struct Loaded {
  Opened opened;
  fa2rtProgram *program = nullptr;
  explicit Loaded(const std::string &ptx = samplePtx()) {
    EXPECT_EQ(fa2rtProgramLoad(opened.device, ptx.data(), ptx.size(), nullptr,
                               0, &program),
              FA2RT_OK)
        << fa2rtLastError();
  }
  ~Loaded() { fa2rtProgramUnload(program); }

  fa2rtStatus launch(int64_t splits = 1) {
    int64_t q[4] = {1, 100, 4, 64}, k[4] = {1, 50, 2, 64};
    auto at = [](uintptr_t address) {
      return reinterpret_cast<void *>(address);
    };
    fa2rtArgument arguments[] = {
        fa2rtTensor("q", at(0x1000), FA2RT_BF16, 4, q, nullptr),
        fa2rtTensor("k", at(0x2000), FA2RT_BF16, 4, k, nullptr),
        fa2rtTensor("out", at(0x3000), FA2RT_BF16, 4, q, nullptr),
        fa2rtInteger("offset", 0), fa2rtInteger("splits", splits)};
    return fa2rtLaunch(program, arguments, 5, at(0x4000), 4096, nullptr);
  }
};

} // namespace

TEST(Cuda, OpensByName) {
  fa2rtDeviceProperties properties;
  for (const char *name : {"cuda", "cuda:0", "cuda:1"}) {
    Opened opened(name);
    ASSERT_EQ(fa2rtDeviceGetProperties(opened.device, &properties), FA2RT_OK);
    EXPECT_STREQ(properties.name, "Fake GPU");
    EXPECT_EQ(properties.compute_capability, 90);
    EXPECT_EQ(properties.multiprocessors, 132);
    EXPECT_EQ(properties.driver_version, 13000);
    EXPECT_EQ(properties.shared_bytes_per_block, 232448);
    EXPECT_EQ(properties.is_simulated, 0);
    EXPECT_EQ(properties.ordinal, std::string(name) == "cuda:1" ? 1 : 0);
  }
  fa2rtDevice *device = nullptr;
  EXPECT_EQ(fa2rtDeviceOpen("cuda:2", &device), FA2RT_ERROR_DEVICE);
  EXPECT_CONTAINS(std::string(fa2rtLastError()), "cuda:2 does not exist");
  EXPECT_EQ(device, nullptr);
  for (const char *name : {"", "cud", "cuda:", "cuda:x", "cuda:1x", "cuda?1",
                           "gpu", "cuda:99999999999"}) {
    EXPECT_EQ(fa2rtDeviceOpen(name, &device), FA2RT_ERROR_ARGUMENT) << name;
    EXPECT_CONTAINS(std::string(fa2rtLastError()), "known: cuda");
  }
  EXPECT_EQ(fa2rtDeviceOpen(nullptr, &device), FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(fa2rtDeviceOpen("cuda", nullptr), FA2RT_ERROR_ARGUMENT);
}

TEST(Cuda, LoadsAndReports) {
  long attributes = callsOf("cuFuncSetAttribute");
  Loaded loaded;
  ASSERT_EQ(fa2rtProgramKernelCount(loaded.program), 2);
  fa2rtKernelInfo info;
  ASSERT_EQ(fa2rtProgramGetKernel(loaded.program, 0, &info), FA2RT_OK);
  EXPECT_STREQ(info.name, "first");
  EXPECT_EQ(info.registers, 40);
  EXPECT_EQ(info.local_bytes, 8);
  EXPECT_EQ(info.dynamic_shared_bytes, 65536);
  EXPECT_EQ(info.threads, 128);
  EXPECT_EQ(fa2rtProgramGetKernel(loaded.program, 2, &info),
            FA2RT_ERROR_ARGUMENT);
  // Only the first kernel has dynamic shared memory, set at load.
  EXPECT_EQ(callsOf("cuFuncSetAttribute"), attributes + 1);
  ASSERT_EQ(fa2rtProgramArgumentCount(loaded.program), 7);
  fa2rtArgumentInfo argument;
  ASSERT_EQ(fa2rtProgramGetArgument(loaded.program, 0, &argument), FA2RT_OK);
  EXPECT_STREQ(argument.name, "q");
  EXPECT_EQ(argument.extents[3], 64);
  EXPECT_EQ(argument.extents[0], -1);
  EXPECT_STREQ(argument.dims[1], "seqlen_q");
  EXPECT_EQ(argument.dims[3], nullptr);
  EXPECT_CONTAINS(std::string(fa2rtProgramManifest(loaded.program)),
                  "\"fa2_manifest\": 1");
}

TEST(Cuda, AGuardedKernelIsCompiledWhenItIsFirstTaken) {
  long loads = callsOf("cuModuleLoadDataEx"),
       modes = callsOf("cuThreadExchangeStreamCaptureMode"),
       unloads = callsOf("cuModuleUnload");
  {
    Loaded loaded(
        wrapManifest(replaced(sampleJson(), R"("kernel": "second",)",
                              R"("kernel": "second", "when": "splits > 1",)"),
                     sampleEntries()));
    ASSERT_EQ(loaded.launch(1), FA2RT_OK) << fa2rtLastError();
    EXPECT_EQ(callsOf("cuModuleLoadDataEx"), loads + 1);
    fa2rtKernelInfo info;
    ASSERT_EQ(fa2rtProgramGetKernel(loaded.program, 1, &info), FA2RT_OK);
    EXPECT_EQ(info.threads, 32);
    EXPECT_EQ(info.registers, -1);
    EXPECT_EQ(callsOf("cuThreadExchangeStreamCaptureMode"), modes);
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(loaded.launch(3), FA2RT_OK) << fa2rtLastError();
      EXPECT_EQ(callsOf("cuModuleLoadDataEx"), loads + 2);
    }
    ASSERT_EQ(fa2rtProgramGetKernel(loaded.program, 1, &info), FA2RT_OK);
    EXPECT_EQ(info.registers, 40);
    // In a relaxed mode, and back in the caller's.
    EXPECT_EQ(callsOf("cuThreadExchangeStreamCaptureMode"), modes + 2);
  }
  EXPECT_EQ(callsOf("cuModuleUnload"), unloads + 2);
}

TEST(Cuda, LaunchNeitherAllocatesNorSynchronises) {
  Loaded loaded;
  const char *const watched[] = {"cuMemAlloc", "cuCtxSynchronize",
                                 "cuFuncSetAttribute", "cuModuleLoadDataEx"};
  std::vector<long> before;
  for (const char *name : watched)
    before.push_back(callsOf(name));
  long launches = callsOf("cuLaunchKernel"), ex = callsOf("cuLaunchKernelEx"),
       maps = callsOf("cuTensorMapEncodeTiled");
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(loaded.launch(3), FA2RT_OK) << fa2rtLastError();
  EXPECT_EQ(callsOf("cuLaunchKernel"), launches + 3);
  EXPECT_EQ(callsOf("cuLaunchKernelEx"), ex + 3); // the cluster
  EXPECT_EQ(callsOf("cuTensorMapEncodeTiled"), maps + 1);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(callsOf(watched[i]), before[i]) << watched[i];
}

/// The sample, its second kernel launched programmatically, or both.
static std::string chainedPtx(bool cluster) {
  std::string json =
      replaced(sampleJson(), "\"fa2_manifest\": 1", "\"fa2_manifest\": 3");
  if (!cluster)
    json = replaced(json, "\"cluster\": [2, 1, 1]", "\"cluster\": [1, 1, 1]");
  return wrapManifest(replaced(json, "\"shared_bytes\": 0,",
                               "\"shared_bytes\": 0, \"programmatic\": true,"),
                      sampleEntries());
}

TEST(Cuda, LaunchesProgrammatically) {
  for (bool cluster : {false, true}) {
    Loaded loaded(chainedPtx(cluster));
    long launches = callsOf("cuLaunchKernel"), ex = callsOf("cuLaunchKernelEx"),
         programmatic = callsOf("programmatic");
    fa2rtDeviceProperties properties;
    ASSERT_EQ(fa2rtDeviceGetProperties(loaded.opened.device, &properties),
              FA2RT_OK);
    ASSERT_EQ(loaded.launch(3), FA2RT_OK) << fa2rtLastError();
    // An older driver gets ordinary launches.
    bool takes = properties.driver_version >= 12030;
    EXPECT_EQ(callsOf("programmatic"), programmatic + takes);
    EXPECT_EQ(callsOf("cuLaunchKernelEx"), ex + (cluster || takes));
    EXPECT_EQ(callsOf("cuLaunchKernel"), launches + 2 - (cluster || takes));
  }
}

TEST(Cuda, APreparedLaunchAsksTheDriverForNothingElse) {
  Loaded loaded;
  int64_t q[4] = {1, 100, 4, 64}, k[4] = {1, 50, 2, 64};
  fa2rtArgument arguments[] = {
      fa2rtTensor("q", nullptr, FA2RT_BF16, 4, q, nullptr),
      fa2rtTensor("k", nullptr, FA2RT_BF16, 4, k, nullptr),
      fa2rtTensor("out", nullptr, FA2RT_BF16, 4, q, nullptr),
      fa2rtInteger("offset", 0), fa2rtInteger("splits", 3)};
  fa2rtPrepared *prepared = nullptr;
  ASSERT_EQ(fa2rtPrepare(loaded.program, arguments, 5, &prepared), FA2RT_OK)
      << fa2rtLastError();
  EXPECT_EQ(fa2rtPreparedWorkspaceSize(prepared), 1200u);
  auto at = [](uintptr_t address) { return reinterpret_cast<void *>(address); };
  void *addresses[5] = {at(0x1000), at(0x2000), at(0x3000)};
  auto launch = [&](size_t bytes) {
    return fa2rtPreparedLaunch(prepared, addresses, 5, at(0x4000), bytes,
                               nullptr);
  };
  const char *const watched[] = {"cuMemAlloc", "cuCtxSynchronize",
                                 "cuFuncSetAttribute", "cuModuleLoadDataEx",
                                 "cuPointerGetAttribute"};
  std::vector<long> before;
  for (const char *name : watched)
    before.push_back(callsOf(name));
  long launches = callsOf("cuLaunchKernel"), ex = callsOf("cuLaunchKernelEx"),
       maps = callsOf("cuTensorMapEncodeTiled");
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(launch(1200), FA2RT_OK) << fa2rtLastError();
  EXPECT_EQ(callsOf("cuLaunchKernel"), launches + 3);
  EXPECT_EQ(callsOf("cuLaunchKernelEx"), ex + 3);
  EXPECT_EQ(callsOf("cuTensorMapEncodeTiled"), maps + 1);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(callsOf(watched[i]), before[i]) << watched[i];
  EXPECT_EQ(launch(1199), FA2RT_ERROR_ARGUMENT);
  addresses[1] = nullptr;
  EXPECT_EQ(launch(1200), FA2RT_ERROR_ARGUMENT);
  EXPECT_CONTAINS(std::string(fa2rtLastError()), "k: the address is null");
  EXPECT_EQ(callsOf("cuLaunchKernel"), launches + 3);
  fa2rtPreparedFree(prepared);
}

TEST(Cuda, RefusesHostMemory) {
  setenv("FAKE_CUDA_OWN", "1", 1);
  Loaded loaded;
  void *memory = nullptr;
  ASSERT_EQ(fa2rtMemoryAllocate(loaded.opened.device, 1 << 20, &memory),
            FA2RT_OK);
  int64_t q[4] = {1, 100, 4, 64}, k[4] = {1, 50, 2, 64};
  alignas(16) static char host[65536];
  fa2rtArgument arguments[] = {
      fa2rtTensor("q", memory, FA2RT_BF16, 4, q, nullptr),
      fa2rtTensor("k", memory, FA2RT_BF16, 4, k, nullptr),
      fa2rtTensor("out", memory, FA2RT_BF16, 4, q, nullptr),
      fa2rtInteger("offset", 0)};
  auto launch = [&](void *workspace) {
    return fa2rtLaunch(loaded.program, arguments, 4, workspace, 4096, nullptr);
  };
  long launches = callsOf("cuLaunchKernel");
  EXPECT_EQ(launch(memory), FA2RT_OK) << fa2rtLastError();
  EXPECT_EQ(callsOf("cuLaunchKernel"), launches + 1);
  arguments[1].data = host;
  EXPECT_EQ(launch(memory), FA2RT_ERROR_ARGUMENT);
  EXPECT_CONTAINS(std::string(fa2rtLastError()), "k: the address 0x");
  EXPECT_CONTAINS(std::string(fa2rtLastError()),
                  "is host memory that Fake GPU does not reach; copy it");
  float time = 0;
  EXPECT_EQ(fa2rtMeasure(loaded.program, arguments, 4, memory, 4096, nullptr, 1,
                         &time),
            FA2RT_ERROR_ARGUMENT);
  fa2rtPrepared *prepared = nullptr;
  EXPECT_EQ(fa2rtPrepare(loaded.program, arguments, 4, &prepared),
            FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(prepared, nullptr);
  arguments[1].data = memory;
  EXPECT_EQ(launch(host), FA2RT_ERROR_ARGUMENT);
  EXPECT_CONTAINS(std::string(fa2rtLastError()), "the workspace: the address");
  EXPECT_EQ(callsOf("cuLaunchKernel"), launches + 1);
  // No element of an empty tensor is read, wherever it is.
  k[1] = 0;
  arguments[1].data = host;
  EXPECT_EQ(launch(memory), FA2RT_OK) << fa2rtLastError();
  unsetenv("FAKE_CUDA_OWN");
  EXPECT_EQ(fa2rtMemoryFree(loaded.opened.device, memory), FA2RT_OK);
}

TEST(Cuda, WorksInTheCallersContext) {
  using namespace fa2rt::cuda;
  auto make =
      fakeFunction<void *(*)(int, unsigned long long)>("fakeCudaContext");
  auto push = fakeFunction<Result (*)(Context)>("cuCtxPushCurrent_v2");
  auto pop = fakeFunction<Result (*)(Context *)>("cuCtxPopCurrent_v2");
  auto current = fakeFunction<Result (*)(Context *)>("cuCtxGetCurrent");
  Context mine = static_cast<Context>(make(1, 7)), seen;
  push(mine);
  {
    long retained = callsOf("cuDevicePrimaryCtxRetain");
    Loaded loaded; // "cuda": the current context's device, 1
    long pushes = callsOf("cuCtxPushCurrent");
    EXPECT_EQ(loaded.launch(), FA2RT_OK) << fa2rtLastError();
    EXPECT_EQ(callsOf("cuDevicePrimaryCtxRetain"), retained);
    EXPECT_EQ(callsOf("cuCtxPushCurrent"), pushes);
    // In another context of that device it loads once more.
    long loads = callsOf("cuModuleLoadDataEx");
    push(static_cast<Context>(make(1, 8)));
    EXPECT_EQ(loaded.launch(), FA2RT_OK) << fa2rtLastError();
    EXPECT_EQ(loaded.launch(), FA2RT_OK) << fa2rtLastError();
    pop(&seen);
    EXPECT_EQ(callsOf("cuModuleLoadDataEx"), loads + 1);
    // With a context of another device current, the primary context serves.
    push(static_cast<Context>(make(0, 9)));
    EXPECT_EQ(loaded.launch(), FA2RT_OK) << fa2rtLastError();
    EXPECT_EQ(callsOf("cuDevicePrimaryCtxRetain"), retained + 1);
    pop(&seen);
  }
  current(&seen);
  EXPECT_EQ(seen, mine); // the caller's stack is as it was
  pop(&seen);
  current(&seen);
  EXPECT_EQ(seen, nullptr);
}

TEST(Cuda, DriverErrorsCarryTheCallAndTheDriversWords) {
  Opened opened;
  std::string ptx = samplePtx() + "\nnot_an_instruction;\n";
  fa2rtProgram *program = nullptr;
  EXPECT_EQ(fa2rtProgramLoad(opened.device, ptx.data(), ptx.size(), nullptr, 0,
                             &program),
            FA2RT_ERROR_DRIVER);
  std::string text = fa2rtLastError();
  EXPECT_CONTAINS(text, "cuModuleLoadDataEx");
  EXPECT_CONTAINS(text, "CUDA_ERROR_INVALID_PTX");
  EXPECT_CONTAINS(text, "ptxas application ptx input");
  EXPECT_EQ(program, nullptr);
  {
    Loaded loaded;
    setenv("FAKE_CUDA_FAULT", "launch", 1);
    EXPECT_EQ(loaded.launch(), FA2RT_ERROR_DRIVER);
    unsetenv("FAKE_CUDA_FAULT");
    text = fa2rtLastError();
    EXPECT_CONTAINS(text, "cuLaunchKernel(\"first\", grid 1x4x1");
    EXPECT_CONTAINS(text, "unspecified launch failure");
  }
  void *memory = nullptr;
  EXPECT_EQ(fa2rtMemoryAllocate(opened.device, size_t(1) << 40, &memory),
            FA2RT_ERROR_MEMORY);
  EXPECT_CONTAINS(std::string(fa2rtLastError()), "cuMemAlloc(1099511627776)");
}

TEST(Cuda, TensorMaps) {
  long maps = callsOf("cuTensorMapEncodeTiled");
  for (bool headsOutside : {false, true})
    for (std::array<int64_t, 4> shape :
         {std::array<int64_t, 4>{2, 50, 3, 72}, {1, 1, 1, 72}, {1, 9, 1, 72}}) {
      TmaCopy c("cuda", shape, headsOutside);
      ASSERT_EQ(c.launch(), FA2RT_OK) << fa2rtLastError();
      c.expectCopied();
    }
  EXPECT_EQ(callsOf("cuTensorMapEncodeTiled"), maps + 12);
  // The driver takes neither a null address nor an extent of 0.
  TmaCopy nothing("cuda", {2, 0, 5, 72}, false, tmaCopyOfNothing("0"));
  EXPECT_EQ(nothing.launch(), FA2RT_OK) << fa2rtLastError();
  TmaCopy c("cuda", {1, 9, 2, 72}, false);
  setenv("FAKE_CUDA_FAULT", "encode", 1);
  EXPECT_EQ(c.launch(), FA2RT_ERROR_DRIVER);
  unsetenv("FAKE_CUDA_FAULT");
  EXPECT_CONTAINS(std::string(fa2rtLastError()),
                  "cuTensorMapEncodeTiled(v: dims [72, 9, 2, 1], byte strides "
                  "[320, 160, 144], box [64, 24, 1, 1], swizzle 128)");
}

TEST(Cuda, MemoryAndEvents) {
  Opened opened;
  void *memory = nullptr;
  ASSERT_EQ(fa2rtMemoryAllocate(opened.device, 64, &memory), FA2RT_OK);
  char in[64] = "some bytes", out[64] = {};
  EXPECT_EQ(fa2rtMemoryCopyIn(opened.device, memory, in, 64), FA2RT_OK);
  EXPECT_EQ(fa2rtMemoryCopyOut(opened.device, out, memory, 64), FA2RT_OK);
  EXPECT_STREQ(out, "some bytes");
  EXPECT_EQ(fa2rtMemorySet(opened.device, memory, 'x', 4), FA2RT_OK);
  EXPECT_EQ(fa2rtMemoryCopyOut(opened.device, out, memory, 64), FA2RT_OK);
  EXPECT_STREQ(out, "xxxx bytes");
  EXPECT_EQ(fa2rtMemoryFree(opened.device, memory), FA2RT_OK);
  EXPECT_EQ(fa2rtMemoryFree(opened.device, nullptr), FA2RT_OK);
  fa2rtEvent *start = nullptr, *stop = nullptr;
  ASSERT_EQ(fa2rtEventCreate(opened.device, &start), FA2RT_OK);
  ASSERT_EQ(fa2rtEventCreate(opened.device, &stop), FA2RT_OK);
  EXPECT_EQ(fa2rtEventRecord(start, nullptr), FA2RT_OK);
  EXPECT_EQ(fa2rtEventRecord(stop, nullptr), FA2RT_OK);
  float milliseconds = -1;
  EXPECT_EQ(fa2rtEventElapsed(start, stop, &milliseconds), FA2RT_OK);
  EXPECT_GE(milliseconds, 0);
  fa2rtEventDestroy(start);
  fa2rtEventDestroy(stop);
}

TEST(CApi, NullHandlesAreRefused) {
  size_t bytes = 0;
  const char *json = nullptr;
  EXPECT_EQ(fa2rtLaunch(nullptr, nullptr, 0, nullptr, 0, nullptr),
            FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(fa2rtWorkspaceSize(nullptr, nullptr, 0, &bytes, nullptr),
            FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(fa2rtProgramLoad(nullptr, "", 0, nullptr, 0, nullptr),
            FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(fa2rtProgramProfile(nullptr, &json), FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(fa2rtManifestCheck(nullptr, 0), FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(fa2rtDeviceSynchronize(nullptr), FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(fa2rtEventElapsed(nullptr, nullptr, nullptr), FA2RT_ERROR_ARGUMENT);
  fa2rtDeviceClose(nullptr);
  fa2rtProgramUnload(nullptr);
  fa2rtEventDestroy(nullptr);
  fa2rtPreparedFree(nullptr);
  fa2rtPrepared *prepared = nullptr;
  EXPECT_EQ(fa2rtPrepare(nullptr, nullptr, 0, &prepared), FA2RT_ERROR_ARGUMENT);
  EXPECT_EQ(prepared, nullptr);
  EXPECT_EQ(fa2rtPreparedWorkspaceSize(nullptr), 0u);
  EXPECT_EQ(fa2rtPreparedLaunch(nullptr, nullptr, 0, nullptr, 0, nullptr),
            FA2RT_ERROR_ARGUMENT);
  Loaded loaded;
  EXPECT_EQ(fa2rtLaunch(loaded.program, nullptr, 3, nullptr, 0, nullptr),
            FA2RT_ERROR_ARGUMENT);
  EXPECT_CONTAINS(std::string(fa2rtLastError()), "'arguments' is null");
}

TEST(CApi, ErrorTextsBelongToTheirThread) {
  fa2rtDevice *device = nullptr;
  fa2rtDeviceOpen("nonsense", &device);
  std::string mine = fa2rtLastError();
  std::thread([&] {
    EXPECT_STREQ(fa2rtLastError(), "");
    fa2rtDeviceOpen("other", &device);
  }).join();
  EXPECT_EQ(mine, fa2rtLastError());
}
