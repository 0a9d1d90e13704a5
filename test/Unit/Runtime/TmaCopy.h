//===- TmaCopy.h - a launch of kernels/tma_copy.ptx -------------*- C++ -*-===//
#ifndef FA2_TEST_UNIT_RUNTIME_TMACOPY_H
#define FA2_TEST_UNIT_RUNTIME_TMACOPY_H

#include "Support.h"
#include "fa2rt/fa2rt.h"

#include <fstream>
#include <sstream>

namespace fa2rt::test {

inline std::string kernelText(const std::string &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// tma_copy.ptx with a block also where there is nothing to copy, which then
/// takes `tiles` tiles: 0 is right.
inline std::string tmaCopyOfNothing(const std::string &tiles) {
  std::string ptx = kernelText(KERNELS "/tma_copy.ptx");
  ptx = replaced(ptx,
                 "\"min(batch * heads * ceildiv(seqlen, 24), "
                 "device.multiprocessors)\"",
                 "1");
  ptx = replaced(ptx, "\"value\": \"batch * heads * ceildiv(seqlen, 24)\"",
                 "\"value\": " + tiles);
  return replaced(ptx, "\"value\": \"ceildiv(seqlen, 24)\"", "\"value\": 1");
}

/// A copy of v [batch, seq, heads, 72], whose rows lie apart, on a device that
/// works in host memory. `headsOutside`: heads before seq in memory.
struct TmaCopy {
  fa2rtDevice *device = nullptr;
  fa2rtProgram *program = nullptr;
  int64_t shape[4], strides[4];
  std::vector<uint16_t> v, out;
  alignas(16) uint32_t workspace[2] = {0, 0};

  TmaCopy(const std::string &name, std::array<int64_t, 4> extents,
          bool headsOutside,
          const std::string &ptx = kernelText(KERNELS "/tma_copy.ptx"))
      : shape{extents[0], extents[1], extents[2], extents[3]} {
    int64_t row = 80; // 72 and 8 that are not the tensor's
    int64_t seq = headsOutside ? row : row * shape[2];
    int64_t head = headsOutside ? row * (shape[1] + 1) : row;
    int64_t batch = row * (shape[1] + 1) * shape[2];
    strides[0] = batch, strides[1] = seq, strides[2] = head, strides[3] = 1;
    v.resize(size_t(batch * shape[0]) + 8);
    out.assign(v.size(), 0xffff);
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = uint16_t(i * 40503u);
    EXPECT_EQ(fa2rtDeviceOpen(name.c_str(), &device), FA2RT_OK)
        << fa2rtLastError();
    EXPECT_EQ(
        fa2rtProgramLoad(device, ptx.data(), ptx.size(), nullptr, 0, &program),
        FA2RT_OK)
        << fa2rtLastError();
  }
  TmaCopy(const TmaCopy &) = delete;
  ~TmaCopy() {
    fa2rtProgramUnload(program);
    fa2rtDeviceClose(device);
  }

  static uint16_t *aligned(std::vector<uint16_t> &elements) {
    uint16_t *at = elements.data();
    while (reinterpret_cast<uintptr_t>(at) % 16)
      ++at;
    return at;
  }

  /// A tensor without elements has no address, as PyTorch gives it.
  fa2rtStatus launch() {
    bool empty = shape[0] * shape[1] * shape[2] * shape[3] == 0;
    fa2rtArgument arguments[] = {fa2rtTensor("v", empty ? nullptr : aligned(v),
                                             FA2RT_BF16, 4, shape, strides),
                                 fa2rtTensor("out",
                                             empty ? nullptr : aligned(out),
                                             FA2RT_BF16, 4, shape, strides)};
    return fa2rtLaunch(program, arguments, 2, workspace, sizeof workspace,
                       nullptr);
  }

  /// Every element of out is v's, and all else in its memory is as it was.
  void expectCopied() {
    EXPECT_EQ(fa2rtDeviceSynchronize(device), FA2RT_OK);
    std::vector<uint16_t> expected(out.size(), 0xffff);
    size_t shift = size_t(aligned(out) - out.data());
    const uint16_t *from = aligned(v);
    for (int64_t b = 0; b < shape[0]; ++b)
      for (int64_t s = 0; s < shape[1]; ++s)
        for (int64_t h = 0; h < shape[2]; ++h)
          for (int64_t d = 0; d < shape[3]; ++d) {
            size_t at =
                size_t(b * strides[0] + s * strides[1] + h * strides[2] + d);
            expected[shift + at] = from[at];
          }
    EXPECT_EQ(out, expected);
  }
};

} // namespace fa2rt::test

#endif // FA2_TEST_UNIT_RUNTIME_TMACOPY_H
