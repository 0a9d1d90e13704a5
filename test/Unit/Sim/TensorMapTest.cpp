//===- TensorMapTest.cpp - What a tensor map may be -----------------------===//
//
// Copies through maps of empty tensors, boxes whose bytes leave what was
// checked, bases that are no tensor's.
//
//===----------------------------------------------------------------------===//

#include "SimTest.h"

using namespace fa2::sim;
using namespace fa2::sim::test;

namespace {

/// One copy between a tensor of 8 x 64 words and shared memory, by thread 0.
struct OneCopy {
  bool load = true;
  uint32_t row = 0;              // the box's first row
  int32_t column = 0;            // and column
  uint32_t at = 0;               // where in shared memory, from its start
  uint32_t dynamicShared = 4096; // the mbarrier lies in its first words
  std::string before;            // by all threads, unordered with the copy
  TensorMap map;
  Options options;
  alignas(16) uint32_t data[8 * 64] = {};

  OneCopy() {
    map.base = reinterpret_cast<uint64_t>(data);
    map.rank = 2;
    map.elementBytes = 4;
    map.box[0] = 8;
    map.box[1] = 4;
    map.dims[0] = 64;
    map.dims[1] = 8;
    map.strides[0] = 256;
    options.capability = 90;
  }

  std::string text() const {
    std::string bytes =
        std::to_string(uint32_t(map.elementBytes * map.box[0] * map.box[1]));
    std::string rank = std::to_string(map.rank) + "d", place = "{%r5, %r3";
    for (unsigned k = 2; k < map.rank; ++k)
      place += ", %r2";
    place += "}";
    std::string copy =
        load ? "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], " + bytes +
                   ";\ncp.async.bulk.tensor." + rank +
                   ".shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                   "[%r1], [%rd1, " +
                   place +
                   "], [%r0];\nW:\nmbarrier.try_wait.parity.shared::cta.b64 "
                   "%p1, "
                   "[%r0], %r2;\n@!%p1 bra W;\n"
             : "cp.async.bulk.tensor." + rank +
                   ".global.shared::cta.tile.bulk_group [%rd1, " + place +
                   "], [%r1];\ncp.async.bulk.commit_group;\n"
                   "cp.async.bulk.wait_group 0;\n";
    return header(90) +
           ".extern .shared .align 1024 .b8 dyn[];\n"
           ".visible .entry k(.param .align 64 .b8 map[128])\n{\n"
           ".reg .b64 %rd<4>;\n.reg .b32 %r<16>;\n.reg .pred %p<4>;\n"
           "mov.b64 %rd0, map;\ncvta.param.u64 %rd1, %rd0;\n"
           "mov.u32 %r0, dyn;\nmov.u32 %r9, %tid.x;\n"
           "setp.eq.u32 %p0, %r9, 0;\nmov.u32 %r4, 1;\n"
           "@%p0 mbarrier.init.shared::cta.b64 [%r0], %r4;\nbar.sync 0;\n" +
           before + "@!%p0 bra END;\nadd.u32 %r1, %r0, " + std::to_string(at) +
           ";\nmov.u32 %r2, 0;\nmov.u32 %r3, " + std::to_string(row) +
           ";\nmov.s32 %r5, " + std::to_string(column) + ";\n" + copy +
           "END:\nret;\n}\n";
  }

  Result operator()() {
    Launch l;
    l.program = parsed(text());
    l.kernel = "k";
    l.block = {64, 1, 1};
    l.dynamicSharedBytes = dynamicShared;
    l.parameters.resize(sizeof map);
    std::memcpy(l.parameters.data(), &map, sizeof map);
    Region tensor;
    tensor.name = "v";
    tensor.base = reinterpret_cast<uint64_t>(data);
    tensor.elementBytes = 4;
    tensor.shape = {8 * 64};
    tensor.strides = {1};
    tensor.writable = true;
    return run({l}, {tensor}, options);
  }
};

void expectError(const Result &r, const std::string &text) {
  EXPECT_NE(r.error.find(text), std::string::npos) << toJson(r);
}

} // namespace

// Hardware touches the base address whatever the box, so that a kernel must not
// copy through the map of an empty tensor, which PyTorch gives no address.
TEST(SimTensorMap, CopiesFromEmptyTensorsAreErrors) {
  for (bool load : {true, false})
    for (bool checks : {true, false})
      for (uint32_t row : {0u, 100u, uint32_t(-4)}) {
        OneCopy c;
        c.load = load;
        c.row = row;
        c.at = 128;
        c.options.checks = checks;
        if (load || int32_t(row) >= 0)
          EXPECT_EQ(c().error, "");
        else
          expectError(c(), "coordinate 1 of a store is negative: -4");
        c.map.dims[1] = 0;
        expectError(c(), "map of an empty tensor: extent 1");
        c.map.base = 0;
        expectError(c(), "map of an empty tensor: extent 1");
        c.map.dims[1] = 8;
        expectError(c(), "base address is null");
        c.map.base = 256; // what cuTensorMapEncodeTiled takes for null
        expectError(c(), "base address is outside every tensor's elements");
      }
}

// Whatever the swizzle, and wherever the box lies.
TEST(SimTensorMap, BoxesBeginAtMultiplesOf16Bytes) {
  for (bool load : {true, false})
    for (uint16_t swizzle : {0, 32})
      for (int32_t column : {-8, -4, -3, 0, 1, 2, 4, 6, 56, 59, 60, 64, 65}) {
        OneCopy c;
        c.load = load;
        c.map.swizzle = swizzle;
        c.column = column;
        c.at = 1024;
        if (!load && column < 0)
          expectError(c(), "coordinate 0 of a store is negative: " +
                               std::to_string(column));
        else if (column % 4 == 0)
          EXPECT_EQ(c().error, "") << column;
        else
          expectError(c(), "the innermost coordinate " +
                               std::to_string(column) +
                               " is not a multiple of 16 bytes");
      }
}

// A store leaves the elements behind a row's end alone from the next multiple
// of 16 bytes on, no sooner.
TEST(SimTensorMap, StoresEndRowsAtMultiplesOf16Bytes) {
  for (uint32_t columns = 1; columns <= 12; ++columns)
    for (uint16_t swizzle : {0, 32}) {
      OneCopy c;
      c.load = false;
      c.at = 1024;
      c.map.swizzle = swizzle;
      c.map.dims[0] = columns;
      c.before = "shl.b32 %r10, %r9, 2;\nadd.u32 %r10, %r10, %r0;\n"
                 "st.shared.u32 [%r10+1024], %r4;\n"
                 "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
      EXPECT_TRUE(c().ok());
      uint32_t written = std::min(8u, (columns + 3) / 4 * 4);
      for (uint32_t row = 0; row < 8; ++row)
        for (uint32_t column = 0; column < 64; ++column)
          EXPECT_EQ(c.data[row * 64 + column], row < 4 && column < written)
              << columns << " columns: " << row << ", " << column;
    }
}

TEST(SimTensorMap, AMapThatIsNotUsedMayBeEmpty) {
  OneCopy c;
  c.before = "setp.eq.u32 %p0, %r9, 64;\n"; // nobody
  c.map.dims[1] = 0;
  c.map.base = 0;
  EXPECT_TRUE(c().ok());
}

// 2^32 bytes are not 0 bytes.
TEST(SimTensorMap, ABoxLargerThanSharedMemory) {
  OneCopy c;
  c.at = 128;
  c.map.rank = 5;
  c.map.elementBytes = 1;
  for (unsigned k = 0; k < 5; ++k) {
    c.map.box[k] = k < 4 ? 256 : 1;
    c.map.dims[k] = 256;
    if (k < 4)
      c.map.strides[k] = 256;
  }
  expectError(c(), "a box of 4294967296 bytes is larger than the 233472");
  c.map.box[3] = 1;
  expectError(c(), "a box of 16777216 bytes is larger than the 233472");
}

// A box of 16 bytes with the swizzle of 128 at the line number 7 of eight lies
// 112 bytes further.
TEST(SimTensorMap, SwizzledChunksStayInSharedMemory) {
  for (bool load : {true, false})
    for (uint32_t bytes : {912u, 1008u, 1023u, 1024u}) {
      OneCopy c;
      c.load = load;
      c.row = 100; // out of range: nothing else to complain about
      c.at = 896;
      c.dynamicShared = bytes;
      c.map.swizzle = 128;
      c.map.box[0] = 4;
      c.map.box[1] = 1;
      if (bytes == 1024)
        EXPECT_EQ(c().error, "");
      else
        expectError(c(), "outside shared memory");
    }
}

TEST(SimTensorMap, SwizzledChunksAreChecked) {
  for (auto [swizzle, at, lies] : {std::array<uint32_t, 3>{128, 896, 1008},
                                   {64, 896, 944},
                                   {32, 896, 912},
                                   {0, 896, 896}})
    for (uint32_t other = 896; other < 1024; other += 16) {
      OneCopy c;
      c.at = at;
      c.map.swizzle = uint16_t(swizzle);
      c.map.box[0] = 4;
      c.map.box[1] = 1;
      // Warp 1 writes there, with nothing between it and the copy.
      c.before = "setp.eq.u32 %p2, %r9, 32;\n@%p2 st.shared.u32 [%r0+" +
                 std::to_string(other) + "], %r9;\n";
      Result r = c();
      EXPECT_EQ(r.error, "");
      EXPECT_EQ(!r.reports.empty(), other == lies)
          << "swizzle " << swizzle << ", written at " << other << toJson(r);
    }
}
