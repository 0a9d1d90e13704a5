//===- Support.cpp - what the runtime's unit tests share ------------------===//

#include "Support.h"

#include <cstdlib>

namespace fa2rt::test {

std::string sampleJson() {
  return R"json({
  "fa2_manifest": 1,
  "compiler": "a test",
  "specification": {"pass": "forward", "dtype": "bf16", "head_dim": 64,
    "head_dim_v": 64, "mask": "none", "later": 1},
  "target": {"arch": "sm_80", "family": false, "min_compute_capability": 80,
    "ptx": "7.0", "min_driver": 11000},
  "schedule": {"block_q": 128},
  "arguments": [
    {"name": "q", "kind": "tensor", "direction": "in", "dtype": "bf16",
     "shape": ["batch", "seqlen_q", "heads", 64], "alignment": 16, "stride_multiple": 8},
    {"name": "k", "kind": "tensor", "direction": "in", "dtype": "bf16",
     "shape": ["batch", "seqlen_k", "heads_kv", 64], "alignment": 16, "stride_multiple": 8},
    {"name": "out", "kind": "tensor", "direction": "out", "dtype": "bf16",
     "shape": ["batch", "seqlen_q", "heads", 64], "alignment": 16, "stride_multiple": 8},
    {"name": "bias", "kind": "tensor", "direction": "in", "dtype": "f32",
     "shape": ["seqlen_k"], "alignment": 4, "stride_multiple": 1, "optional": true},
    {"name": "scale", "kind": "scalar", "dtype": "f32", "default": 0.125,
     "require": "positive_finite"},
    {"name": "splits", "kind": "scalar", "dtype": "i32", "default": 1},
    {"name": "offset", "kind": "scalar", "dtype": "i64"}
  ],
  "requires": [
    {"that": "heads_kv > 0 && heads % heads_kv == 0",
     "message": "heads must be a multiple of heads_kv"}
  ],
  "workspace": {"bytes": "splits * seqlen_q * 4", "alignment": 256},
  "launches": [
    {"kernel": "first", "grid": ["ceildiv(seqlen_q, 128)", "heads", "batch"],
     "block": [128, 1, 1], "cluster": [1, 1, 1], "shared_bytes": 65536,
     "parameters": [
       {"kind": "pointer", "of": "q"},
       {"kind": "stride", "of": "q", "dim": 1},
       {"kind": "i32", "value": "seqlen_q"},
       {"kind": "i64", "value": "offset * 2"},
       {"kind": "scalar", "of": "scale"},
       {"kind": "scalar", "of": "splits"},
       {"kind": "scalar", "of": "offset"},
       {"kind": "workspace", "offset": "16"},
       {"kind": "pointer", "of": "bias"},
       {"kind": "tensor_map", "of": "k", "box_rows": 32, "box_cols": 64,
        "swizzle": 128}
     ]},
    {"kernel": "second", "grid": ["max(splits - 1, 0)", 1, 1],
     "block": [32, 1, 1], "cluster": [2, 1, 1], "shared_bytes": 0,
     "parameters": [{"kind": "pointer", "of": "out"}]}
  ]
})json";
}

std::string sampleEntries() {
  return R"(
.visible .entry first(
  .param .u64 .ptr .global .align 16 a, .param .u64 b, .param .u32 c,
  .param .u64 d, .param .f32 e, .param .u32 f, .param .u64 g, // not .param
  .param .u64 h, .param .u64 i, .param .align 64 .b8 j[128])
{ ret; }
/* .entry hidden(.param .u64 a) */
.entry second(.param .u64 a) { ret; }
)";
}

FakeDevice::FakeDevice() {
  info.name = "fake";
  info.computeCapability = 90;
  info.multiprocessors = 132;
  info.driverVersion = 13000;
  info.l2Bytes = 50 << 20;
  info.sharedBytesPerBlock = 232448;
}

class FakeModule : public Module {
public:
  FakeModule(FakeDevice &device, uint64_t context)
      : device(device), context(context) {}
  KernelAttributes attributes(size_t) const override { return {32, 0, 0}; }
  void launch(const LaunchList &list) const override {
    for (const KernelLaunch &kernel : list.kernels) {
      RecordedLaunch record;
      record.kernel = kernel.kernel;
      record.grid = kernel.grid;
      record.block = kernel.block;
      record.cluster = kernel.cluster;
      record.sharedBytes = kernel.sharedBytes;
      record.programmatic = kernel.programmatic;
      record.stream = list.stream;
      record.context = context;
      for (size_t i = 0; i < kernel.parameterOffsets.size(); ++i) {
        size_t begin = kernel.parameterOffsets[i];
        size_t end = i + 1 < kernel.parameterOffsets.size()
                         ? kernel.parameterOffsets[i + 1]
                         : kernel.parameters.size();
        record.parameters.emplace_back(
            kernel.parameters.begin() + ptrdiff_t(begin),
            kernel.parameters.begin() + ptrdiff_t(end));
      }
      std::lock_guard lock(device.mutex);
      device.launches.push_back(std::move(record));
    }
  }

private:
  FakeDevice &device;
  uint64_t context;
};

Entry FakeDevice::enter() {
  std::lock_guard lock(mutex);
  ++scopes;
  return {currentContext, false};
}
void FakeDevice::leave(Entry) noexcept {
  std::lock_guard lock(mutex);
  --scopes;
}
std::unique_ptr<Module> FakeDevice::load(const LoadRequest &) {
  std::lock_guard lock(mutex);
  ++loads;
  return std::make_unique<FakeModule>(*this, currentContext);
}
TensorMapImage FakeDevice::encodeTensorMap(const TensorMapRequest &request) {
  std::lock_guard lock(mutex);
  maps.push_back(request);
  TensorMapImage image{};
  image[0] = std::byte(maps.size());
  return image;
}
void *FakeDevice::allocate(size_t bytes) {
  ++allocations;
  return std::malloc(bytes);
}
void FakeDevice::release(void *memory) { std::free(memory); }

namespace {
class FakeEvent : public Event {
  void record(void *) override {}
  float since(const Event &) override { return 1.5f; }
};
} // namespace

std::unique_ptr<Event> FakeDevice::createEvent() {
  return std::make_unique<FakeEvent>();
}

} // namespace fa2rt::test
