//===- WgmmaTest.cpp - numbers of wgmma in every shape --------------------===//
//
// 64 x n x 64 products of small integers, which are exact, with the operands
// where attention has them: A in registers or K-major, B K-major (keys) or
// MN-major (values), all with the 128-byte swizzle.
//
//===----------------------------------------------------------------------===//

#include "Numerics.h"
#include "SimTest.h"

#include <random>

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

constexpr unsigned kM = 64, kK = 64, kThreads = 128;

struct Case {
  bool bf16;
  unsigned n;
  bool registersA, transposedB;
};

/// Where byte `byte` (below 128) of line `line` of a tile at a multiple of 1024
/// is: chunks of 16 bytes change places within groups of 8 lines (PTX ISA
/// 5.5.6, 128-byte swizzling mode).
uint32_t placed(uint32_t line, uint32_t byte) {
  return line * 128 + ((byte / 16 ^ line % 8) * 16 + byte % 16);
}

class Product {
public:
  explicit Product(Case c) : c(c), a(kM * kK), b(kK * c.n) {
    std::mt19937 random(c.n);
    for (int &x : a)
      x = int(random() % 7) - 3;
    for (int &x : b)
      x = int(random() % 7) - 3;
  }

  void run() {
    Bench bench;
    bench.capability = 90;
    bench.threads = kThreads;
    bench.options.seed = c.n;
    bench.in.assign((sharedBytes() + fragmentBytes()) / 4, 0);
    bench.dynamicShared = sharedBytes();
    bench.out.assign(c.n / 2 * kThreads, 0);
    fill(bench.in);
    bench.clean(text());
    for (unsigned r = 0; r < c.n / 2; ++r)
      for (unsigned t = 0; t < kThreads; ++t) {
        // PTX ISA 9.7.15.5.1.1, the accumulator.
        unsigned row = 16 * (t / 32) + t % 32 / 4 + 8 * (r / 2 % 2);
        unsigned column = 8 * (r / 4) + 2 * (t % 4) + r % 2;
        int sum = 0;
        for (unsigned k = 0; k < kK; ++k)
          sum += a[row * kK + k] * b[k * c.n + column];
        ASSERT_EQ(value(bench.out[r * kThreads + t]), float(sum))
            << "n " << c.n << ", row " << row << ", column " << column;
      }
  }

private:
  unsigned chunks() const { return c.transposedB ? (c.n + 63) / 64 : 1; }
  uint32_t chunkBytes() const { return (c.transposedB ? kK : c.n) * 128; }
  uint32_t sharedBytes() const { return kM * 128 + chunks() * chunkBytes(); }
  uint32_t fragmentBytes() const { return kM * kK * 2; }

  uint16_t encode(int x) const {
    return c.bf16 ? floatToBfloat(float(x)) : floatToHalf(float(x));
  }

  /// Shared memory as it is to be, then A's fragments [k
  /// step][register][thread].
  void fill(std::vector<uint32_t> &words) {
    auto put = [&](uint32_t byte, int x) {
      words[byte / 4] |= uint32_t(encode(x)) << 8 * (byte % 4);
    };
    for (unsigned m = 0; m < kM; ++m)
      for (unsigned k = 0; k < kK; ++k)
        put(placed(m, 2 * k), a[m * kK + k]);
    for (unsigned k = 0; k < kK; ++k)
      for (unsigned n = 0; n < c.n; ++n)
        put(kM * 128 + (c.transposedB
                            ? n / 64 * chunkBytes() + placed(k, 2 * (n % 64))
                            : placed(n, 2 * k)),
            b[k * c.n + n]);
    for (unsigned step = 0; step < kK / 16; ++step)
      for (unsigned r = 0; r < 4; ++r)
        for (unsigned t = 0; t < kThreads; ++t)
          for (unsigned half = 0; half < 2; ++half) {
            unsigned row = 16 * (t / 32) + t % 32 / 4 + 8 * (r % 2);
            unsigned k = 16 * step + 8 * (r / 2) + 2 * (t % 4) + half;
            put(sharedBytes() + ((step * 4 + r) * kThreads + t) * 4 + 2 * half,
                a[row * kK + k]);
          }
  }

  /// A descriptor's register from an address: lbo and sbo in bytes.
  static std::string descriptor(const std::string &to, uint32_t offset,
                                uint32_t lbo, uint32_t sbo) {
    uint64_t rest =
        uint64_t(lbo >> 4) << 16 | uint64_t(sbo >> 4) << 32 | uint64_t(1) << 62;
    return "add.u32 %r4, %r0, " + std::to_string(offset) +
           ";\nshr.u32 %r4, %r4, 4;\ncvt.u64.u32 " + to + ", %r4;\nor.b64 " +
           to + ", " + to + ", " + std::to_string(rest) + ";\n";
  }

  std::string text() const {
    std::string copy =
        "mov.u32 %r0, dyn;\nmov.u32 %r1, %tid;\nCOPY:\n"
        "mul.wide.u32 %rd0, %r1, 4;\nadd.s64 %rd1, %in, %rd0;\n"
        "ld.global.u32 %r2, [%rd1];\nshl.b32 %r3, %r1, 2;\n"
        "add.u32 %r3, %r3, %r0;\nst.shared.u32 [%r3], %r2;\n"
        "add.u32 %r1, %r1, 128;\nsetp.lt.u32 %p0, %r1, " +
        std::to_string(sharedBytes() / 4) +
        ";\n@%p0 bra COPY;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n";
    std::string accumulators, products, stores;
    for (unsigned r = 0; r < c.n / 2; ++r) {
      std::string d = "%d" + std::to_string(r);
      accumulators += (r ? ", " : "") + d;
      stores += "st.global.f32 [%my+" + std::to_string(r * kThreads * 4) +
                "], " + d + ";\n";
    }
    std::string dtype = c.bf16 ? "bf16" : "f16";
    for (unsigned step = 0; step < kK / 16; ++step) {
      std::string s = std::to_string(step), first = "%rd1" + s,
                  second = "%rd2" + s;
      std::string operandA = first, flags = ", 1, 1";
      if (c.registersA) {
        operandA = "{";
        for (unsigned r = 0; r < 4; ++r) {
          std::string register_ = "%r" + std::to_string(10 + 4 * step + r);
          copy +=
              "add.s64 %rd0, %in, %lane64;\nld.global.b32 " + register_ +
              ", [%rd0+" +
              std::to_string(sharedBytes() + (step * 4 + r) * kThreads * 4) +
              "];\n";
          operandA += (r ? ", " : "") + register_;
        }
        operandA += "}";
      } else {
        copy += descriptor(first, step * 32, 16, 1024);
        flags += ", 0";
      }
      copy +=
          c.transposedB
              ? descriptor(second, kM * 128 + step * 2048, chunkBytes(), 1024)
              : descriptor(second, kM * 128 + step * 32, 16, 1024);
      // The first product takes no accumulator: %d holds nothing yet.
      products += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(c.n) +
                  "k16.f32." + dtype + "." + dtype + " {" + accumulators +
                  "}, " + operandA + ", " + second +
                  (step ? ", %p1" : ", %p2") + flags +
                  (c.transposedB ? ", 1" : ", 0") + ";\n";
    }
    return ".reg .f32 %d<128>;\nsetp.eq.u32 %p1, 0, 0;\n"
           "setp.ne.u32 %p2, 0, 0;\n" +
           copy + "wgmma.fence.sync.aligned;\n" + products +
           "wgmma.commit_group.sync.aligned;\n"
           "wgmma.wait_group.sync.aligned 0;\n" +
           stores;
  }

  Case c;
  std::vector<int> a, b; // [m][k], [k][n]
};

TEST(SimWgmmaShapes, RegistersByKeys) {
  for (unsigned n = 8; n <= 256; n += 8)
    for (bool bf16 : {true, false})
      Product({bf16, n, true, false}).run();
}

TEST(SimWgmmaShapes, RegistersByValues) {
  for (unsigned n = 8; n <= 256; n += 8)
    for (bool bf16 : {true, false})
      Product({bf16, n, true, true}).run();
}

TEST(SimWgmmaShapes, SharedByKeys) {
  for (unsigned n = 8; n <= 256; n += 8)
    for (bool bf16 : {true, false})
      Product({bf16, n, false, false}).run();
}

TEST(SimWgmmaShapes, SharedByValues) {
  for (unsigned n : {8u, 40u, 64u, 72u, 128u, 200u, 256u})
    for (bool bf16 : {true, false})
      Product({bf16, n, false, true}).run();
}

} // namespace
