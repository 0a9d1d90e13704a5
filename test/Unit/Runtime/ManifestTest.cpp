//===- ManifestTest.cpp - reading and refusing manifests ------------------===//

#include "Manifest.h"
#include "Program.h"
#include "PtxEntries.h"
#include "Support.h"

#include <array>
#include <random>

using namespace fa2rt;
using namespace fa2rt::test;

namespace {

std::string refusal(const std::string &ptx) {
  return errorOf(FA2RT_ERROR_MANIFEST, [&] { Manifest::parse(ptx); });
}

/// The refusal of the sample with one replacement.
std::string refusalOf(const std::string &from, const std::string &to) {
  return refusal(
      wrapManifest(replaced(sampleJson(), from, to), sampleEntries()));
}

} // namespace

TEST(Manifest, ReadsEverything) {
  Manifest m = Manifest::parse(samplePtx());
  EXPECT_EQ(m.compiler, "a test");
  EXPECT_EQ(m.pass, "forward");
  EXPECT_EQ(m.target.arch, "sm_80");
  EXPECT_FALSE(m.target.family);
  EXPECT_EQ(m.target.minComputeCapability, 80);
  EXPECT_EQ(m.target.minDriver, 11000);
  ASSERT_EQ(m.arguments.size(), 7u);
  EXPECT_EQ(m.dimensions,
            (std::vector<std::string>{"batch", "seqlen_q", "heads", "seqlen_k",
                                      "heads_kv"}));
  EXPECT_EQ(m.arguments[0].shape[3].fixed, 64);
  EXPECT_EQ(m.arguments[1].shape[1].dimension, 3u);
  EXPECT_EQ(m.arguments[2].direction, FA2RT_OUT);
  EXPECT_TRUE(m.arguments[3].optional);
  EXPECT_EQ(m.arguments[4].require, Requirement::PositiveFinite);
  EXPECT_EQ(m.arguments[4].defaultReal, 0.125);
  EXPECT_TRUE(m.arguments[5].optional);
  EXPECT_FALSE(m.arguments[6].optional);
  ASSERT_EQ(m.launches.size(), 2u);
  EXPECT_EQ(m.launches[0].sharedBytes, 65536u);
  EXPECT_EQ(m.launches[0].parameters.size(), 10u);
  EXPECT_EQ(m.launches[1].cluster[0], 2u);
  EXPECT_EQ(m.workspaceAlignment, 256);
  EXPECT_FALSE(m.workspaceZeroed);
  const Parameter &map = m.launches[0].parameters[9];
  EXPECT_EQ(map.boxRows, 32u);
  EXPECT_EQ(map.boxCols, 64u);
  EXPECT_EQ(map.swizzle, 128);
  m = Manifest::parse(wrapManifest(replaced(sampleJson(), "\"alignment\": 256}",
                                            "\"alignment\": 256, "
                                            "\"zeroed\": true}"),
                                   sampleEntries()));
  EXPECT_TRUE(m.workspaceZeroed);
}

TEST(Manifest, LaysParametersOutAsPtxDoes) {
  Manifest m = Manifest::parse(samplePtx());
  // u64 u64 u32 u64 f32 u32 u64 u64 u64 128 bytes at 64
  EXPECT_EQ(m.launches[0].parameterOffsets,
            (std::vector<size_t>{0, 8, 16, 24, 32, 36, 40, 48, 56, 64}));
  EXPECT_EQ(m.launches[0].parameterBytes, 192u);
}

TEST(Manifest, NeedsTheMarks) {
  EXPECT_CONTAINS(refusal(""), "no manifest");
  EXPECT_CONTAINS(refusal(".version 7.0\n"), "no manifest");
  EXPECT_CONTAINS(refusal(fmt::format("\n{}", samplePtx())), "no manifest");
  EXPECT_CONTAINS(refusal("// fa2-manifest-begin\n// {\n"), "text ends");
  EXPECT_CONTAINS(refusal("// fa2-manifest-begin\n// {\n.version 7.0\n"),
                  "line 3");
}

TEST(Manifest, RefusesANewerVersion) {
  std::string text = refusalOf("\"fa2_manifest\": 1", "\"fa2_manifest\": 5");
  EXPECT_CONTAINS(text, "version 5");
  EXPECT_CONTAINS(text, "newer");
  // Even when it has fields of its own.
  EXPECT_CONTAINS(
      refusalOf("\"fa2_manifest\": 1", "\"new\": 0, \"fa2_manifest\": 5"),
      "newer");
  refusalOf("\"fa2_manifest\": 1", "\"fa2_manifest\": 0");
  refusalOf("\"fa2_manifest\": 1", "\"fa2_manifest\": \"1\"");
}

TEST(Manifest, ReadsProgrammaticLaunchesOfVersion3) {
  auto of = [](const std::string &version, const std::string &value) {
    std::string json = replaced(sampleJson(), "\"fa2_manifest\": 1",
                                "\"fa2_manifest\": " + version);
    return wrapManifest(
        replaced(json, "\"shared_bytes\": 0,",
                 "\"shared_bytes\": 0, \"programmatic\": " + value + ","),
        sampleEntries());
  };
  Manifest m = Manifest::parse(of("3", "true"));
  EXPECT_FALSE(m.launches[0].programmatic);
  EXPECT_TRUE(m.launches[1].programmatic);
  EXPECT_FALSE(Manifest::parse(of("3", "false")).launches[1].programmatic);
  EXPECT_CONTAINS(refusal(of("3", "1")), "launches[1].programmatic");
  EXPECT_CONTAINS(refusal(of("2", "true")), "programmatic");
}

TEST(Manifest, ReadsBroadcastTensorsOfVersion2) {
  auto of = [](const std::string &version, const std::string &fields,
               const std::string &shape = "[\"seqlen_k\"]",
               const std::string &direction = "in") {
    std::string json = replaced(sampleJson(), "\"fa2_manifest\": 1",
                                "\"fa2_manifest\": " + version);
    json = replaced(
        json, "\"bias\", \"kind\": \"tensor\", \"direction\": \"in\"",
        "\"bias\", \"kind\": \"tensor\", \"direction\": \"" + direction + "\"");
    return wrapManifest(
        replaced(json,
                 "\"shape\": [\"seqlen_k\"], \"alignment\": 4, "
                 "\"stride_multiple\": 1, \"optional\": true",
                 "\"shape\": " + shape +
                     ", \"alignment\": 4, \"stride_multiple\": 1, " + fields),
        sampleEntries());
  };
  Manifest m = Manifest::parse(of("2", "\"broadcast\": true"));
  EXPECT_TRUE(m.arguments[3].broadcast);
  EXPECT_FALSE(m.arguments[0].broadcast);
  EXPECT_FALSE(
      Manifest::parse(of("2", "\"optional\": true")).arguments[3].broadcast);
  // Version 1 had no such field.
  EXPECT_CONTAINS(refusal(of("1", "\"broadcast\": true")), "broadcast");
  EXPECT_CONTAINS(refusal(of("2", "\"broadcast\": 1")), "broadcast");
  // An extent that may be 1 defines nothing for others.
  EXPECT_CONTAINS(
      refusal(of("2", "\"broadcast\": true", "[\"table\", \"table\"]")),
      "the dimension 'table' is defined by a broadcast tensor");
  // A sum has those of what comes before it.
  EXPECT_CONTAINS(refusal(of("2", "\"broadcast\": true", "[\"table\"]", "out")),
                  "the dimension 'table' is of a broadcast output");
  EXPECT_CONTAINS(
      refusal(of("2", "\"broadcast\": true", "[\"seqlen_k\"]", "inout")),
      "only tensors of direction 'in' or 'out' are broadcast");
  EXPECT_TRUE(
      Manifest::parse(of("2", "\"broadcast\": true", "[\"seqlen_k\"]", "out"))
          .arguments[3]
          .broadcast);
}

TEST(Manifest, SaysTheLineOfBrokenJson) {
  // The sample's line 3 is the file's line 4.
  EXPECT_CONTAINS(refusalOf("\"compiler\": \"a test\",", "\"compiler\": ,"),
                  "line 4");
  EXPECT_CONTAINS(refusalOf("\"compiler\": \"a test\",", "\"compiler\": 5e,"),
                  "line 4");
  EXPECT_CONTAINS(refusalOf("\"ptx\": \"7.0\"", "\"ptx\": \"7.0"), "line 8");
  EXPECT_CONTAINS(refusal(wrapManifest("{\n\"a\": [1,\n", "")), "manifest, ");
  EXPECT_CONTAINS(refusal(wrapManifest("{} {}", "")), "not valid JSON");
  EXPECT_CONTAINS(refusal(wrapManifest("", "")), "not valid JSON");
  EXPECT_CONTAINS(refusal(wrapManifest("[]", "")), "expected an object");
  EXPECT_CONTAINS(refusal(wrapManifest(std::string(5000, '['), "")),
                  "nested deeper");
}

TEST(Manifest, NamesMissingFields) {
  for (const char *field : {"compiler",
                            "specification",
                            "target",
                            "schedule",
                            "arguments",
                            "requires",
                            "workspace",
                            "launches",
                            "pass",
                            "head_dim_v",
                            "arch",
                            "family",
                            "min_compute_capability",
                            "min_driver",
                            "name",
                            "kind",
                            "direction",
                            "dtype",
                            "shape",
                            "alignment",
                            "stride_multiple",
                            "that",
                            "message",
                            "bytes",
                            "kernel",
                            "grid",
                            "block",
                            "cluster",
                            "shared_bytes",
                            "parameters",
                            "of",
                            "dim",
                            "value",
                            "offset",
                            "box_rows",
                            "box_cols",
                            "swizzle"}) {
    std::string text = refusalOf(fmt::format("\"{}\":", field),
                                 fmt::format("\"x_{}\":", field));
    EXPECT_CONTAINS(text, fmt::format("'{}' is missing", field));
    EXPECT_CONTAINS(text, "line ");
  }
}

TEST(Manifest, NamesUnknownAndRepeatedFields) {
  std::string text =
      refusalOf("\"requires\": [", "\"extra\": 1,\n\"requires\": [");
  EXPECT_CONTAINS(text, "'extra' is unknown");
  EXPECT_CONTAINS(refusalOf("\"ptx\": \"7.0\"", "\"ptx\": \"7.0\", \"x\": 1"),
                  "target: the field 'x' is unknown");
  EXPECT_CONTAINS(refusalOf("\"dim\": 1", "\"dim\": 1, \"x\": 1"),
                  "launches[0].parameters[1]");
  EXPECT_CONTAINS(refusalOf("\"compiler\": \"a test\",",
                            "\"compiler\": \"a\",\n\"compiler\": \"b\","),
                  "line 5: field 'compiler' is given twice");
}

TEST(Manifest, RefusesWrongValues) {
  struct Case {
    const char *from, *to, *says;
  };
  const Case cases[] = {
      {"\"compiler\": \"a test\"", "\"compiler\": 1",
       "compiler: expected a string"},
      {"\"family\": false", "\"family\": 0",
       "target.family: expected true or false"},
      {"\"kind\": \"tensor\"", "\"kind\": \"image\"", "unknown kind 'image'"},
      {"\"direction\": \"in\"", "\"direction\": \"up\"",
       "unknown direction 'up'"},
      {"\"dtype\": \"bf16\",\n     \"shape\"",
       "\"dtype\": \"f8\",\n     \"shape\"", "unknown dtype 'f8'"},
      {"\"alignment\": 16", "\"alignment\": 24", "power of two"},
      {"\"stride_multiple\": 8", "\"stride_multiple\": 0", "from 1 to"},
      {"\"name\": \"k\"", "\"name\": \"q\"", "'q' is given twice"},
      {"\"name\": \"q\"", "\"name\": \"device\"", "taken"},
      {"\"name\": \"q\"", "\"name\": \"2q\"", "expected a name"},
      {"\"heads\", 64]", "\"heads\", -1]", "from 0 to"},
      {"\"heads\", 64]", "\"heads\", 1.5]", "expected a string"},
      {"\"require\": \"positive_finite\"", "\"require\": \"small\"",
       "unknown requirement 'small'"},
      {"\"dtype\": \"i32\", \"default\": 1",
       "\"dtype\": \"i32\", \"default\": 1.5", "expected an integer"},
      {"\"dtype\": \"i32\"", "\"dtype\": \"bf16\"", "unknown dtype 'bf16'"},
      {"\"name\": \"splits\"", "\"name\": \"batch\"",
       "both a dimension and a scalar"},
      {"splits * seqlen_q * 4", "splits * seqlen", "unknown name 'seqlen'"},
      {"ceildiv(seqlen_q, 128)", "ceildiv(seqlen_q)", "launches[0].grid[0]"},
      {"\"kernel\": \"second\"",
       "\"when\": \"seqlen_z < 9\", \"kernel\": \"second\"",
       "launches[1].when: expression 'seqlen_z < 9': unknown name 'seqlen_z'"},
      {"\"kernel\": \"second\"",
       "\"when\": \"seqlen_k <\", \"kernel\": \"second\"",
       "launches[1].when: expression 'seqlen_k <': expected a value"},
      {"\"kernel\": \"second\"", "\"when\": true, \"kernel\": \"second\"",
       "launches[1].when: expected an expression"},
      {"\"kernel\": \"second\"", "\"schedule\": 1, \"kernel\": \"second\"",
       "launches[1].schedule: expected an object"},
      {"\"block\": [128, 1, 1]", "\"block\": [128, 1]", "expected 3 elements"},
      {"\"block\": [128, 1, 1]", "\"block\": [1024, 2, 1]", "2048 threads"},
      {"\"cluster\": [2, 1, 1]", "\"cluster\": [16, 2, 1]", "32 blocks"},
      {"\"kernel\": \"second\"", "\"kernel\": \"hidden\"", "no entry 'hidden'"},
      {"{\"kind\": \"i32\", \"value\"", "{\"kind\": \"i64\", \"value\"",
       "has 4 bytes"},
      {"{\"kind\": \"stride\", \"of\": \"q\", \"dim\": 1},", "",
       "takes 10 parameters"},
      {"\"dim\": 1", "\"dim\": 4", "from 0 to 3"},
      {"{\"kind\": \"i32\"", "{\"kind\": \"u32\"", "unknown kind 'u32'"},
      {"{\"kind\": \"pointer\", \"of\": \"q\"}",
       "{\"kind\": \"pointer\", \"of\": \"z\"}", "no argument is named 'z'"},
      {"{\"kind\": \"pointer\", \"of\": \"q\"}",
       "{\"kind\": \"pointer\", \"of\": \"scale\"}", "not a tensor"},
      {"{\"kind\": \"scalar\", \"of\": \"scale\"}",
       "{\"kind\": \"scalar\", \"of\": \"q\"}", "not a scalar"},
      {"\"swizzle\": 128", "\"swizzle\": 100", "0, 32, 64 or 128"},
      {"\"swizzle\": 128", "\"swizzle\": 64",
       "box_cols: 64 elements of bf16 are 128 bytes, wider than the swizzle of "
       "64 bytes"},
      {"\"box_rows\": 32", "\"box_rows\": 257", "from 1 to 256"},
      {"\"box_rows\": 32", "\"box_rows\": 0", "from 1 to 256"},
      {"\"box_rows\": 32", "\"box_rows\": 32, \"box_heads\": 0",
       "from 1 to 256"},
      {"\"box_cols\": 64", "\"box_cols\": 257", "from 1 to 256"},
      {"\"box_cols\": 64", "\"box_cols\": 60",
       "box_cols: 60 elements of bf16 are 120 bytes; a box's rows are "
       "multiples "
       "of 16 bytes"},
      {"\"kind\": \"tensor_map\", \"of\": \"k\"",
       "\"kind\": \"tensor_map\", \"of\": \"bias\"",
       "'bias' has rank 1; a tensor map is of a tensor [batch, seq, heads, d]"},
      {"\"kind\": \"tensor_map\", \"of\": \"k\"",
       "\"kind\": \"tensor_map\", \"of\": \"scale\"", "not a tensor"},
      {"\"alignment\": 256}", "\"alignment\": 256, \"zeroed\": 1}",
       "workspace.zeroed: expected true or false"},
      {"\"min_driver\": 11000", "\"min_driver\": 99999999999999999999",
       "line 8"},
  };
  for (const Case &c : cases) {
    std::string text = refusalOf(c.from, c.to);
    EXPECT_CONTAINS(text, c.says);
    if (std::string(c.says).find("both") == std::string::npos)
      EXPECT_CONTAINS(text, "line ");
  }
}

TEST(Manifest, EveryTruncationIsRefused) {
  std::string whole = samplePtx();
  size_t end = whole.find("// fa2-manifest-end");
  for (size_t length = 0; length < end; length += 7)
    refusal(whole.substr(0, length));
}

TEST(Manifest, AnyChangeParsesOrIsRefused) {
  // Seeded edits of a good text; test/Fuzz goes further. A reader that crashes,
  // hangs or throws anything else fails here.
  const std::string whole = samplePtx();
  const std::string alphabet = "{}[]\",:0189-eE.+*/()qks_ \n\\\xff";
  std::mt19937 random(1);
  int parsed = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (int edits = 1 + int(random() % 3); edits > 0; --edits) {
      size_t at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text[at] = alphabet[random() % alphabet.size()];
        break;
      case 1:
        text.erase(at, 1 + random() % 20);
        break;
      case 2:
        text.insert(at, 1, alphabet[random() % alphabet.size()]);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    try {
      Manifest::parse(text);
      ++parsed;
    } catch (const Error &error) {
      EXPECT_EQ(error.status, FA2RT_ERROR_MANIFEST) << text;
      ++refused;
    }
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 1000);
}

TEST(Manifest, LongTextsAreClippedInErrors) {
  const std::string endless(100000, 'x');
  for (auto [from, to] :
       {std::pair<std::string, std::string>{"\"sm_80\"", "\"" + endless + "\""},
        {"\"dtype\": \"f32\"", "\"dtype\": \"" + endless + "\""},
        {"\"ceildiv(seqlen_q, 128)\"", "\"" + endless + "\""},
        {"\"ceildiv(seqlen_q, 128)\"", "\"1 + " + endless + "\""},
        {"\"kernel\": \"first\"", "\"kernel\": \"" + endless + "\""},
        {"\"that\"", "\"" + endless + "\": 1, \"that\""}}) {
    std::string ptx =
        wrapManifest(replaced(sampleJson(), from, to), sampleEntries());
    try {
      Manifest manifest = Manifest::parse(ptx);
      checkTarget(manifest, DeviceProperties(), false);
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error &error) {
      EXPECT_LT(std::string(error.what()).size(), 2000u) << from;
      EXPECT_CONTAINS(error.what(), "bytes)");
    }
  }
}

TEST(Manifest, CarriageReturnsAreWhitespace) {
  std::string ptx = samplePtx(), dos;
  for (char c : ptx)
    dos += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(Manifest::parse(dos).arguments.size(), 7u);
}

TEST(Manifest, KeepsTheEntriesThatAreNamed) {
  std::string text =
      "// head {\n.extern .shared .b8 s[];\n"
      ".visible .entry a(.param .u32 x)\n{ { ret; } }\n"
      ".entry b()\n{ ret; } // after b\n"
      ".visible .entry c() .maxntid 32\n{ ret; }\n.section .d { x }\n";
  std::string a = "a", b = "b", c = "c";
  EXPECT_EQ(keepEntries(text, std::array{a, b, c}), text);
  EXPECT_EQ(keepEntries(text, std::array{b}),
            "// head {\n.extern .shared .b8 s[];\n\n"
            ".entry b()\n{ ret; } // after b\n\n.section .d { x }\n");
  EXPECT_EQ(keepEntries(text, std::array{a, c}),
            "// head {\n.extern .shared .b8 s[];\n"
            ".visible .entry a(.param .u32 x)\n{ { ret; } }\n // after b\n"
            ".visible .entry c() .maxntid 32\n{ ret; }\n.section .d { x }\n");
  // An entry that never ends stays: what is wrong is the driver's to say.
  EXPECT_EQ(keepEntries(".entry a() {", {}), ".entry a() {");
}

TEST(PtxEntries, ReadsDeclarations) {
  auto entries = findEntries(sampleEntries());
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "first");
  EXPECT_EQ(entries[0].parameterBytes,
            (std::vector<size_t>{8, 8, 4, 8, 4, 4, 8, 8, 8, 128}));
  EXPECT_EQ(entries[1].parameterBytes, (std::vector<size_t>{8}));
  EXPECT_TRUE(findEntries(".entry").size() == 1);
  EXPECT_TRUE(findEntries("// .entry x()\n").empty());
  EXPECT_CONTAINS(
      errorOf(FA2RT_ERROR_MANIFEST, [] { findEntries("\n/* .entry x()"); }),
      "the PTX, line 2: comment is never closed");
}

// As the simulator reads them: whoever sees other entries checks others than
// those that are launched.
TEST(PtxEntries, ReadsOverWhatIsNoEntry) {
  for (const char *text :
       {".section .debug_x\n{ .entry k(.param .u64 a) { ret; } }",
        ".file 1 \".entry k(\"", ".file 1 \"a\\\".entry k(\"",
        ".file 1 \"a\" .entry k()", ".loc 1 2 3 .entry k()",
        ".pragma \"{ .entry k() \\\" \";"})
    EXPECT_TRUE(findEntries(text).empty()) << text;
  EXPECT_EQ(findEntries(".file 1 \"a\\\"b\"\n.entry k()").size(), 1u);
}

TEST(PtxEntries, SizesOfParameters) {
  auto entries =
      findEntries(".entry k(.param .v4 .u32 a, .param .v2 .f64 b[3], "
                  ".param .align 4 .b8 c[2][5], .param .b128 d, "
                  ".param .bf16x2 e, .param .u99 f, .param .u8 g[])");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].parameterBytes,
            (std::vector<size_t>{16, 48, 10, 16, 4, 0, 0}));
}
