//===- NpyTest.cpp - .npy files and configurations ------------------------===//

#include "Npy.h"
#include "Check.h"
#include "Configuration.h"
#include "Refusal.h"

#include <gtest/gtest.h>

#include <set>

using namespace fa2run;
using namespace fa2run::test;

namespace {

std::string file(std::string header, std::string data, char major = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += major;
  bytes += '\0';
  bytes += char(header.size() & 255);
  bytes += char(header.size() >> 8);
  if (major > 1)
    bytes += std::string(2, '\0');
  return bytes + header + data;
}

const char *const kHeader =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
const std::string kTwoFloats("\0\0\x80\x3f\0\0\0\x40", 8); // 1, 2

} // namespace

TEST(Npy, Reads) {
  for (char major : {1, 2, 3}) {
    Array array = parseNpy(file(kHeader, kTwoFloats, major), "x");
    EXPECT_EQ(array.shape, std::vector<int64_t>{2});
    EXPECT_EQ(array.values, (std::vector<float>{1, 2}));
  }
  Array half =
      parseNpy(file("{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2)}",
                    std::string("\0\x3c\0\xc0", 4)),
               "x");
  EXPECT_EQ(half.values, (std::vector<float>{1, -2}));
  EXPECT_EQ(half.shape, (std::vector<int64_t>{1, 2}));
  Array bf16 =
      parseNpy(file("{'descr': '|V2', 'fortran_order': False, 'shape': (1,)}",
                    std::string("\x80\x3f", 2)),
               "x");
  EXPECT_EQ(bf16.values, std::vector<float>{1});
  Array scalar =
      parseNpy(file("{'shape': (), 'fortran_order': False, 'descr': '<f8'}",
                    std::string("\0\0\0\0\0\0\xf8\x3f", 8)),
               "x");
  EXPECT_EQ(scalar.values, std::vector<float>{1.5});
}

TEST(Npy, WritesWhatItReads) {
  Array array{{2, 0, 3}, {}};
  EXPECT_EQ(parseNpy(formatNpy(array, false), "x").shape, array.shape);
  array = {{2, 3}, {0, 1, -2, 0.5f, 65504, -0.25f}};
  for (bool half : {false, true}) {
    std::string bytes = formatNpy(array, half);
    Array back = parseNpy(bytes, "x");
    EXPECT_EQ(back.shape, array.shape);
    EXPECT_EQ(back.values, array.values);
    // The format asks for the data at a multiple of 64.
    EXPECT_EQ((bytes.size() - 6 * (half ? 2 : 4)) % 64, 0u);
  }
}

TEST(Npy, RefusesWhatItCannotRead) {
  EXPECT_CONTAINS(refusalOf([] { parseNpy("", "x"); }), "x: not a readable");
  EXPECT_CONTAINS(refusalOf([] { parseNpy("PK\3\4 a zip file", "x"); }),
                  "NUMPY");
  auto refusal = [](std::string header, std::string data = kTwoFloats) {
    return refusalOf([&] { parseNpy(file(header, data), "x"); });
  };
  EXPECT_CONTAINS(
      refusal("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}"),
      "'<i8'");
  EXPECT_CONTAINS(
      refusal("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}"),
      "'>f4'");
  EXPECT_CONTAINS(
      refusal("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}"),
      "Fortran");
  EXPECT_CONTAINS(refusal(kHeader, "1234567"), "promises 2 items");
  EXPECT_CONTAINS(refusal(kHeader, kTwoFloats + "x"), "promises 2 items");
  EXPECT_CONTAINS(refusal("{'descr': '<f4', 'fortran_order': False, "
                          "'shape': (4294967296, 4294967296, 2)}"),
                  "overflows");
  EXPECT_CONTAINS(refusal("{'descr': '<f4', 'fortran_order': False, "
                          "'shape': (4611686018427387904,)}"),
                  "promises");
  EXPECT_CONTAINS(refusal("{'descr': [('a', '<f4')], 'fortran_order': False, "
                          "'shape': (2,)}"),
                  "structured");
  EXPECT_CONTAINS(refusal("{'descr': '<f4', 'shape': (2,)}"), "lacks");
  EXPECT_CONTAINS(refusal("{'descr': '<f4', 'other': 1}"), "'other'");
  EXPECT_CONTAINS(refusalOf([] { parseNpy(file(kHeader, "", 4), "x"); }),
                  "version 4");
  std::string whole = file(kHeader, kTwoFloats);
  for (size_t length = 0; length < whole.size(); ++length)
    refusalOf([&] { parseNpy(whole.substr(0, length), "x"); });
}

TEST(Configuration, GoesThroughJson) {
  Kernel kernel;
  kernel.headDim = kernel.headDimV = 64;
  kernel.blockQ = 128;
  kernel.blockKv = 64;
  kernel.defaultScale = 0.125;
  std::set<int64_t> lengths;
  for (int64_t i = 0; i < 400; ++i) {
    Configuration c = randomConfiguration(kernel, 7, i, 2100, 4e10);
    EXPECT_NO_THROW(validate(c));
    Configuration back = fromJson(nlohmann::json::parse(toJson(c).dump()));
    EXPECT_EQ(toJson(back), toJson(c));
    EXPECT_LE(c.seqlenQ, 2100);
    EXPECT_LE(c.seqlenK, 2100);
    EXPECT_EQ(toJson(randomConfiguration(kernel, 7, i, 2100, 4e10)), toJson(c));
    lengths.insert(c.seqlenQ);
  }
  // The edges come up.
  for (int64_t length : {0, 1, 113, 127, 129, 1023, 2049})
    EXPECT_TRUE(lengths.count(length)) << length;
  EXPECT_GT(lengths.size(), 100u);
}

TEST(Configuration, Refusals) {
  auto refusal = [](const char *text) {
    return refusalOf([&] { validate(fromJson(nlohmann::json::parse(text))); });
  };
  EXPECT_CONTAINS(refusal(R"({"heads": 6, "heads_kv": 4})"), "heads is 6");
  EXPECT_CONTAINS(refusal(R"({"heads": 6, "heads_kv": 0})"), "heads is 6");
  EXPECT_CONTAINS(refusal(R"({"batch": -1})"), "batch is -1");
  EXPECT_CONTAINS(refusal(R"({"seqlen_q": 2147483648})"), "seqlen-q");
  EXPECT_CONTAINS(refusal(R"({"bach": 1})"), "no field \"bach\"");
  EXPECT_CONTAINS(refusal(R"({"layout": "sbhd"})"), "layout");
  EXPECT_CONTAINS(refusal(R"({"batch": "x"})"), "must be a whole number");
  EXPECT_CONTAINS(refusal("[1]"), "JSON object");
}

TEST(RowSample, HasTheEdges) {
  Kernel kernel;
  kernel.headDim = kernel.headDimV = 128;
  kernel.blockQ = 128;
  kernel.blockKv = 64;
  kernel.mask = Mask::Causal;
  Configuration c;
  c.batch = 4;
  c.heads = 16;
  c.headsKv = 16;
  c.seqlenQ = c.seqlenK = 16384;
  RowSample sample = chooseRows(kernel, c, CheckMode::Auto, 1e9);
  EXPECT_FALSE(sample.everything);
  EXPECT_LT(sample.rowsChecked, 1000);
  ASSERT_FALSE(sample.heads.empty());
  EXPECT_EQ(sample.heads.front().batch, 0);
  EXPECT_EQ(sample.heads.front().head, 0);
  EXPECT_EQ(sample.heads.back().batch, 3);
  EXPECT_EQ(sample.heads.back().head, 15);
  for (const auto &entry : sample.heads) {
    std::set<int64_t> rows(entry.rows.begin(), entry.rows.end());
    for (int64_t row : {0, 16383, 127, 128, 16255, 16256, 63, 64})
      EXPECT_TRUE(rows.count(row)) << row;
  }
  EXPECT_TRUE(chooseRows(kernel, c, CheckMode::Full, 1).everything);
  c.seqlenQ = 0;
  EXPECT_TRUE(chooseRows(kernel, c, CheckMode::Auto, 1).everything);
}
