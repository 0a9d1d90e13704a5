//===- Sm80.cpp - targets programmed with mma.sync and cp.async -----------===//
//
// Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability". PTX versions: PTX ISA, "Release Notes", which also say the CUDA
// version each came with; a driver of that version takes it.
//
//===----------------------------------------------------------------------===//

#include "Sm80.h"

#include <array>

using namespace fa2;

namespace {
constexpr int64_t kKiB = 1024;

struct Row {
  const char *name;
  int computeCapability;
  int64_t sharedKiBPerBlock, sharedKiBPerMultiprocessor;
  int64_t threadsPerMultiprocessor;
  PtxRequirement ptx;
};

// clang-format off
constexpr std::array kRows = {
    Row{"sm_80",   80, 163, 164, 2048, {70, 11000}},
    Row{"sm_86",   86,  99, 100, 1536, {71, 11010}},
    Row{"sm_87",   87, 163, 164, 1536, {74, 11040}},
    Row{"sm_89",   89,  99, 100, 1536, {78, 11080}},
    Row{"sm_90",   90, 227, 228, 2048, {81, 12010}},
    Row{"sm_100", 100, 227, 228, 2048, {86, 12070}},
    Row{"sm_103", 103, 227, 228, 2048, {88, 12090}},
    Row{"sm_110", 110, 227, 228, 1536, {90, 13000}},
    Row{"sm_120", 120,  99, 100, 1536, {87, 12080}},
    Row{"sm_121", 121,  99, 100, 1536, {88, 12090}},
};
// clang-format on

class Sm80Target : public Target {
public:
  Sm80Target(const Row &row) : row(row) {
    lim.sharedBytesPerBlock = row.sharedKiBPerBlock * kKiB;
    lim.sharedBytesPerMultiprocessor = row.sharedKiBPerMultiprocessor * kKiB;
    lim.threadsPerMultiprocessor = row.threadsPerMultiprocessor;
  }

  llvm::StringRef name() const override { return row.name; }
  int computeCapability() const override { return row.computeCapability; }
  bool isFamilySpecific() const override { return false; }
  const TargetLimits &limits() const override { return lim; }
  PtxRequirement ptx() const override { return row.ptx; }
  gpu::MatmulFamilyAttr
  matmulFamily(mlir::MLIRContext *context) const override {
    return gpu::MmaSyncAttr::get(context);
  }
  bool hasVectorReductions() const override {
    return row.computeCapability >= 90;
  }
  llvm::ArrayRef<int64_t> warpChoices() const override {
    static constexpr int64_t choices[] = {4, 8, 2, 1};
    return choices;
  }

private:
  const Row &row;
  TargetLimits lim;
};
} // namespace

llvm::ArrayRef<const Target *> sm80::mmaSyncTargets() {
  static const auto all = [] {
    std::array<const Target *, kRows.size()> targets{};
    for (size_t i = 0; i < kRows.size(); ++i)
      targets[i] = new Sm80Target(kRows[i]); // lives as long as the process
    return targets;
  }();
  return all;
}
