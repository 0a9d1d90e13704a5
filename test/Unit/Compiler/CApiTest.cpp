//===- CApiTest.cpp - the compiler's C interface --------------------------===//

#include "fa2/fa2.h"

#include "gtest/gtest.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace {

struct Compiled {
  explicit Compiled(const char *spec) : c(fa2_compile(spec)) {}
  Compiled(const char *module, const char *spec)
      : c(fa2_compile_module(module, spec)) {}
  ~Compiled() { fa2_compilation_free(c); }
  Compiled(const Compiled &) = delete;
  std::string text() const {
    return {fa2_compilation_text(c), fa2_compilation_size(c)};
  }
  std::string error() const { return fa2_compilation_error(c); }
  fa2_compilation *c;
};

TEST(CApi, Compiles) {
  Compiled c("arch=sm_80 dtype=f16, head_dim=64\tmask=causal");
  ASSERT_TRUE(fa2_compilation_ok(c.c)) << c.error();
  EXPECT_EQ(c.error(), "");
  EXPECT_EQ(c.text().rfind("// fa2-manifest-begin\n", 0), 0u);
  EXPECT_NE(c.text().find(".entry fa2_forward_f16_d64_causal("),
            std::string::npos);
  EXPECT_EQ(fa2_compilation_text(c.c)[fa2_compilation_size(c.c)], '\0');
  EXPECT_NE(std::string(fa2_compilation_explanation(c.c)).find("block_q = "),
            std::string::npos);
}

TEST(CApi, CompilesBackward) {
  Compiled c("pass=backward head_dim=64 dq=recompute");
  ASSERT_TRUE(fa2_compilation_ok(c.c)) << c.error();
  for (const char *entry :
       {"fa2_backward_bf16_d64_statistics(", "fa2_backward_bf16_d64(",
        "fa2_backward_bf16_d64_dq("})
    EXPECT_NE(c.text().find(std::string(".entry ") + entry), std::string::npos);
  EXPECT_NE(c.text().find("\"deterministic\": true"), std::string::npos);
}

/// From the entry's name to the end of its body.
std::string bodyOf(const std::string &ptx, const std::string &entry) {
  size_t from = ptx.find(".entry " + entry + "(");
  if (from == std::string::npos)
    return "no " + entry;
  size_t end = ptx.find("\n}\n", from);
  // Parameters and labels carry the kernel's name and number.
  std::string body = ptx.substr(from, end - from);
  for (const std::string &name : {entry + "_param", std::string("$L__BB")})
    for (size_t at; (at = body.find(name)) != std::string::npos;)
      body.erase(at, body.find_first_of("_,;:]", at + name.size()) - at);
  return body.substr(body.find('('));
}

// A kernel that is compiled alone is the one of the whole program.
TEST(CApi, ChoosesSchedules) {
  const std::string spec = "arch=sm_90a head_dim=64 mask=causal";
  fa2_compilation *chosen = fa2_schedules(nullptr, spec.c_str());
  ASSERT_TRUE(fa2_compilation_ok(chosen)) << fa2_compilation_error(chosen);
  std::istringstream lines(fa2_compilation_text(chosen));
  fa2_compilation_free(chosen);
  Compiled whole(spec.c_str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    size_t colon = line.find(": ");
    EXPECT_EQ(colon == std::string::npos, count == 0) << line;
    std::string fields =
        colon == std::string::npos ? line : line.substr(colon + 2);
    Compiled alone((spec + " variants=none schedule='" + fields + "'").c_str());
    ASSERT_TRUE(fa2_compilation_ok(alone.c)) << alone.error();
    std::string name = "fa2_forward_bf16_d64_causal";
    EXPECT_EQ(bodyOf(alone.text(), name),
              bodyOf(whole.text(),
                     count ? name + "_variant" + std::to_string(count) : name))
        << line;
  }
  EXPECT_GT(count, 2);
  EXPECT_EQ(whole.text().find("_variant" + std::to_string(count)),
            std::string::npos);

  chosen = fa2_schedules(nullptr, "head_dim=100");
  EXPECT_FALSE(fa2_compilation_ok(chosen));
  fa2_compilation_free(chosen);
}

TEST(CApi, CompilesVariants) {
  Compiled c("head_dim=64,variants='seqlen_k <= 32: block_q=32, warps=2; "
             "heads - 3 > 0: stages=1' mask=causal");
  ASSERT_TRUE(fa2_compilation_ok(c.c)) << c.error();
  for (const char *entry :
       {"fa2_forward_bf16_d64_causal(", "fa2_forward_bf16_d64_causal_variant1(",
        "fa2_forward_bf16_d64_causal_variant2("})
    EXPECT_NE(c.text().find(std::string(".entry ") + entry), std::string::npos);
  EXPECT_NE(c.text().find("\"when\": \"!(seqlen_k <= 32) && (heads - 3 > 0)\""),
            std::string::npos);
  EXPECT_NE(std::string(fa2_compilation_explanation(c.c))
                .find("where seqlen_k <= 32: #fa2.schedule<"),
            std::string::npos);
}

TEST(CApi, KeepsWhatItCompiled) {
  std::string folder = testing::TempDir() + "fa2-capi-cache-" +
                       std::to_string(getpid()),
              spec = "head_dim=16 cache='" + folder + "'";
  Compiled first(spec.c_str()), second(spec.c_str());
  EXPECT_FALSE(fa2_compilation_cached(first.c));
  EXPECT_TRUE(fa2_compilation_cached(second.c));
  EXPECT_EQ(first.text(), second.text());
  EXPECT_STREQ(fa2_compilation_explanation(first.c),
               fa2_compilation_explanation(second.c));
  fa2_compilation *state = fa2_cache(("cache='" + folder + "'").c_str());
  EXPECT_EQ(fa2_compilation_text(state), folder + "\n0 of at most 512 MB\n");
  fa2_compilation_free(state);
  std::filesystem::remove_all(folder);

  // A folder that cannot be is no error.
  Compiled nowhere("head_dim=16 cache='/dev/null/x'");
  EXPECT_EQ(first.text(), nowhere.text());
  EXPECT_NE(
      std::string(fa2_compilation_explanation(nowhere.c))
          .find("\ncache: compiled kernels cannot be kept in /dev/null/x"),
      std::string::npos);
}

TEST(CApi, SaysWhatIsWrong) {
  for (auto [spec, message] : {
           std::pair{"head_dim=100", "the nearest supported are 96 and 104"},
           {"headdim=64", "unknown key 'headdim'; the nearest is head_dim"},
           {"head_dim", "expected key=value, got 'head_dim'"},
           {"=64", "unknown key ''"},
           {"head_dim=", "expected head_dim to be an integer, got ''"},
           {"arch=sm_20", "the nearest supported is sm_80"},
           {"pass=backward arch=sm_90a overlap=1",
            "expected overlap = false in backward kernels of sm_90a"},
           {"pass=backward dq=sorted",
            "expected dq to be atomic, recompute, atomic_v4, ordered or "
            "deterministic"},
           {"variants='heads > 1: stages=1",
            "expected ' at the end of variants's value, got 'heads > 1: "},
           {"variants='batch > 1: block_kv=16'",
            "guard 'batch > 1' reads batch"},
           {"stages=9", "expected stages to be 1 to 4, got 9"},
       }) {
    Compiled c(spec);
    EXPECT_FALSE(fa2_compilation_ok(c.c));
    EXPECT_EQ(fa2_compilation_size(c.c), 0u);
    EXPECT_NE(c.error().find(message), std::string::npos) << c.error();
    EXPECT_EQ(c.error().find('\n'), std::string::npos);
  }
  Compiled null(nullptr);
  EXPECT_FALSE(fa2_compilation_ok(null.c));
  EXPECT_FALSE(fa2_compilation_ok(nullptr));
  fa2_compilation_free(nullptr);
}

/// A module with one attention, whose score program is `program`.
std::string moduleOf(const std::string &program) {
  return R"(!t = tensor<?x?x?x64xf16>
func.func @mine(%q: !t, %k: !t, %v: !t, %c: f32) -> (!t, tensor<?x?x?xf32>) {
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%c)
      {mask = #fa2.mask<causal>} : !t, !t, !t -> !t, tensor<?x?x?xf32> score {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
)" + program +
         R"(    fa2.yield %r : f32
  }
  return %o, %lse : !t, tensor<?x?x?xf32>
}
)";
}

TEST(CApi, CompilesAModule) {
  std::string module = moduleOf("    %r = math.tanh %s : f32\n");
  for (const char *spec : {"", "arch=sm_90a", "block_q=64"}) {
    Compiled c(module.c_str(), spec);
    ASSERT_TRUE(fa2_compilation_ok(c.c)) << c.error();
    EXPECT_NE(c.text().find(".entry mine("), std::string::npos);
    EXPECT_NE(c.text().find("\"program\": {"), std::string::npos);
  }
}

TEST(CApi, SaysWhatIsWrongWithAModule) {
  std::string good = moduleOf("    %r = math.tanh %s : f32\n");
  std::string bad = moduleOf("    %r = math.cbrt %s : f32\n");
  for (auto [module, spec, message] : {
           std::tuple{bad.c_str(), "",
                      "line 6: 'math.cbrt' op is not supported in a score "
                      "program"},
           {"func.func @f(", "", "line 1: expected non-function type"},
           {"func.func private @f()", "",
            "expected one fa2.attention in 'f', got 0"},
           {"", "", "expected a module with one func.func, got 0 and 0 other"},
           {good.c_str(), "mask=causal", "mask is what the module says"},
           {good.c_str(), "sink=head", "sink is what the module says"},
           {good.c_str(), "dropout=argument", "dropout is what the module"},
           {good.c_str(), "arch=sm_20", "the nearest supported is sm_80"},
           {nullptr, "", "expected a module's text, got a null pointer"},
       }) {
    Compiled c(module, spec);
    EXPECT_FALSE(fa2_compilation_ok(c.c));
    EXPECT_NE(c.error().find(message), std::string::npos) << c.error();
    EXPECT_EQ(c.error().find('\n'), std::string::npos);
  }
}

TEST(CApi, ThreadsDoNotDisturbEachOther) {
  const char *specs[] = {"head_dim=64", "head_dim=32 mask=causal", "head_dim=7",
                         "head_dim=64"};
  std::vector<std::string> alone, together(std::size(specs));
  for (const char *spec : specs) {
    Compiled c(spec);
    alone.push_back(c.text() + c.error());
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::size(specs); ++i)
    threads.emplace_back([&, i] {
      Compiled c(specs[i]);
      together[i] = c.text() + c.error();
    });
  for (std::thread &t : threads)
    t.join();
  EXPECT_EQ(alone, together);
}

} // namespace
