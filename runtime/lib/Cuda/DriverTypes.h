//===- DriverTypes.h - the CUDA driver's binary interface -------*- C++ -*-===//
//
// The few types and constants of the driver API that the runtime uses, so that
// no CUDA toolkit is needed to build. Names and values follow the CUDA Driver
// API reference, which keeps them stable.
//
//===----------------------------------------------------------------------===//
#ifndef FA2RT_LIB_CUDA_DRIVERTYPES_H
#define FA2RT_LIB_CUDA_DRIVERTYPES_H

#include <cstddef>
#include <cstdint>

namespace fa2rt::cuda {

using Result = int; // CUresult; 0: success
using DeviceId = int;
using DevicePointer = unsigned long long;
using Context = struct ContextRecord *;
using ModuleHandle = struct ModuleRecord *;
using Function = struct FunctionRecord *;
using Stream = struct StreamRecord *;
using EventHandle = struct EventRecord *;
using HostFunction = void (*)(void *);

enum : Result {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidContext = 201,
};

enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kL2CacheSize = 38,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kPageableMemoryAccess = 88,
  kMaxSharedMemoryPerBlockOptin = 97,
};

enum FunctionAttribute : int {
  kSharedSizeBytes = 1,
  kLocalSizeBytes = 3,
  kNumRegs = 4,
  kMaxDynamicSharedSizeBytes = 8,
};

enum CaptureMode : int { kCaptureRelaxed = 2 };

enum PointerAttribute : int { kPointerMemoryType = 2 };

enum JitOption : int {
  kJitInfoLogBuffer = 3,
  kJitInfoLogBufferSizeBytes = 4,
  kJitErrorLogBuffer = 5,
  kJitErrorLogBufferSizeBytes = 6,
};

struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmaticStreamSerialization;
    uint64_t alignment;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);
constexpr int kLaunchAttributeClusterDimension = 4;
constexpr int kLaunchAttributeProgrammaticStreamSerialization = 6;
/// The first driver (CUDA 12.3) whose graphs have such edges, so that a launch
/// with the attribute can be captured.
constexpr int kProgrammaticDriver = 12030;

struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};

// Tensor maps (CUtensorMapDataType and its neighbours).
enum TensorMapType : int {
  kMapInt32 = 3,
  kMapFloat16 = 6,
  kMapFloat32 = 7,
  kMapBfloat16 = 9,
};
enum TensorMapSwizzle : int {
  kSwizzleNone = 0,
  kSwizzle32 = 1,
  kSwizzle64 = 2,
  kSwizzle128 = 3,
};
constexpr int kInterleaveNone = 0;
// 256 makes rows that are not whole sectors of 32 bytes slower.
constexpr int kPromotionL2_128 = 2;
constexpr int kFillZeros = 0;

} // namespace fa2rt::cuda

#endif // FA2RT_LIB_CUDA_DRIVERTYPES_H
