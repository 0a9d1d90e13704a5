//===- ToolTest.cpp - fa2-run from the outside ----------------------------===//
//
// Runs the tool on the naive kernel, with the fake driver in the place of
// libcuda.so.1; each fault that the fake driver can be given must be noticed.
//
//===----------------------------------------------------------------------===//

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>

namespace {

struct Ran {
  int status = -1;
  std::string text; // standard output and error
  nlohmann::json json() const { return nlohmann::json::parse(text); }
};

/// Runs "ENV fa2-run ARGUMENTS".
Ran runTool(const std::string &arguments, const std::string &environment = "") {
  std::string command = "env LD_LIBRARY_PATH=" FAKE_CUDA_DIR " " + environment +
                        " " FA2_RUN " " + arguments + " 2>&1";
  Ran ran;
  std::FILE *pipe = popen(command.c_str(), "r");
  if (!pipe)
    return ran;
  char buffer[4096];
  while (size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    ran.text.append(buffer, got);
  int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return ran;
}

const std::string kNaive = KERNELS "/naive_forward.ptx ";
const std::string kSmall = kNaive + "--batch 2 --heads 4 --heads-kv 2 "
                                    "--seqlen-q 45 --seqlen-k 40 ";

#define EXPECT_SAYS(ran, part)                                                 \
  EXPECT_NE((ran).text.find(part), std::string::npos) << (ran).text

std::string temporary(const char *name) { return testing::TempDir() + name; }

struct Refused {
  std::string arguments, environment;
  const char *says;
};

/// As text and as JSON.
void expectRefused(int status, const std::vector<Refused> &cases) {
  for (const Refused &c : cases) {
    Ran ran = runTool(c.arguments, c.environment);
    EXPECT_EQ(ran.status, status) << c.arguments << "\n" << ran.text;
    EXPECT_SAYS(ran, c.says);
    EXPECT_LT(ran.text.size(), 4000u);
    ran = runTool(c.arguments + " --json", c.environment);
    EXPECT_EQ(ran.status, status) << c.arguments << "\n" << ran.text;
    nlohmann::json json =
        nlohmann::json::parse(ran.text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << ran.text;
    EXPECT_EQ(json.value("status", -1), status);
    EXPECT_NE(json.value("error", "").find(c.says), std::string::npos)
        << ran.text;
  }
}

#ifdef HAS_SIMULATOR
/// The naive kernel with each {from, to} replaced, in a file.
std::string
variant(const char *name,
        const std::vector<std::pair<std::string, std::string>> &edits) {
  std::ifstream file(KERNELS "/naive_forward.ptx");
  std::ostringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  for (const auto &[from, to] : edits) {
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos)
      text.replace(at, from.size(), to);
  }
  std::string path = temporary(name);
  std::ofstream(path) << text;
  return path + " ";
}
#endif

} // namespace

TEST(Tool, PassesARightKernel) {
  Ran ran = runTool(kSmall);
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_SAYS(ran, "passed");
  EXPECT_SAYS(ran, "360 of 360 rows");
  EXPECT_SAYS(ran, "40 of them see no key"); // 5 rows of each head
  EXPECT_SAYS(ran, "driver: 40 registers, 8 local bytes (spills)");
  EXPECT_SAYS(ran, "TFLOP/s");
}

TEST(Tool, DefaultCase) {
  Ran ran = runTool(kNaive + "--json --repeats 3");
  ASSERT_EQ(ran.status, 0) << ran.text;
  auto json = ran.json();
  EXPECT_TRUE(json["check"]["passed"]);
  EXPECT_EQ(json["device"]["model"], "Fake GPU");
  EXPECT_EQ(json["check"]["time"]["launches"], 3);
  EXPECT_GT(json["check"]["time"]["median_ms"], 0.0);
  EXPECT_EQ(json["program"]["kernels"][0]["registers"], 40);
  EXPECT_EQ(json["configuration"]["seqlen_q"], 1023);
}

TEST(Tool, OtherDrawsAndLayouts) {
  for (const char *more :
       {"--layout bhsd", "--row-padding 3", "--tail-rows 0", "--seed 9",
        "--random-scale 60", "--sign", "--scale 0.7", "--device cuda:1",
        "--sign --random-scale 6 --layout bhsd", "--seqlen-q 0", "--seqlen-k 0",
        "--batch 0", "--heads 0 --heads-kv 0"}) {
    Ran ran = runTool(kSmall + "--repeats 2 " + more);
    EXPECT_EQ(ran.status, 0) << more << "\n" << ran.text;
  }
}

TEST(Tool, NoticesEveryFault) {
  struct Fault {
    const char *name, *says;
  };
  for (auto [name, says] :
       {Fault{"mask", "exceeds the allowed"},
        {"tail", "NaN or infinite"},
        {"padding", "memory between the elements of out was written"},
        {"unwritten", "1 elements of the outputs"},
        {"nan", "NaN or infinite"},
        {"lse", "lse is"},
        {"empty", "it sees no key"},
        {"input", "an input was written"},
        {"launch", "unspecified launch failure"},
        {"unsteady", "a later launch gave other bits"}}) {
    std::string arguments = kSmall + "--heads 1 --heads-kv 1 --batch 1 ";
    Ran ran = runTool(arguments + "--row-padding 2",
                      std::string("FAKE_CUDA_FAULT=") + name);
    EXPECT_EQ(ran.status, 1) << name << "\n" << ran.text;
    EXPECT_SAYS(ran, says);
    Ran json = runTool(arguments + "--row-padding 2 --json",
                       std::string("FAKE_CUDA_FAULT=") + name);
    EXPECT_EQ(json.status, 1);
    EXPECT_FALSE(json.json()["check"]["passed"]);
  }
}

TEST(Tool, LaunchesAgainMustGiveTheSameBits) {
  std::string arguments = kSmall + "--repeats 0 --same-bits 3";
  EXPECT_EQ(runTool(arguments).status, 0);
  Ran ran = runTool(arguments, "FAKE_CUDA_FAULT=unsteady");
  EXPECT_EQ(ran.status, 1);
  EXPECT_SAYS(ran, "launch 1 of 3 with the same inputs gave other bits of out");
}

TEST(Tool, SamplesLargeCases) {
  Ran ran =
      runTool(kNaive + "--check sample --seqlen 500 --heads 2 --repeats 0");
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_SAYS(ran, "96 of 1000 rows: a seeded sample");
  ran = runTool(kNaive + "--check sample --seqlen 500 --repeats 0",
                "FAKE_CUDA_FAULT=mask");
  EXPECT_EQ(ran.status, 1) << ran.text;
}

TEST(Tool, ArraysGoInAndOut) {
  std::string out = temporary("fa2-out.npy"), lse = temporary("fa2-lse.npy"),
              q = temporary("fa2-q.npy"), k = temporary("fa2-k.npy"),
              v = temporary("fa2-v.npy"), out2 = temporary("fa2-out2.npy");
  Ran ran =
      runTool(kSmall + "--layout bhsd --save-out " + out + " --save-lse " +
              lse + " --save-q " + q + " --save-k " + k + " --save-v " + v);
  ASSERT_EQ(ran.status, 0) << ran.text;
  // The same inputs from files give the same bits, shapes taken from them.
  ran = runTool(kNaive + "--layout bhsd --q " + q + " --k " + k + " --v " + v +
                " --seed 99 --save-out " + out2);
  ASSERT_EQ(ran.status, 0) << ran.text;
  EXPECT_SAYS(ran, "heads 4 (kv 2), seqlen 45 x 40");
  auto bytes = [](const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
  EXPECT_EQ(bytes(out), bytes(out2));
  EXPECT_GT(bytes(out).size(), 128u);
  // In the other order the shapes do not fit together.
  ran = runTool(kNaive + "--q " + q + " --k " + k + " --v " + v);
  EXPECT_EQ(ran.status, 2) << ran.text;
  // k alone does not fit q's batch.
  ran = runTool(kNaive + "--layout bhsd --q " + q + " --batch 1");
  EXPECT_EQ(ran.status, 2) << ran.text;
  for (const std::string &path : {out, lse, q, k, v, out2})
    std::remove(path.c_str());
}

TEST(Tool, FailedRunsLeaveNoFile) {
  std::string folder = testing::TempDir() + "no-such-folder/";
  Ran ran = runTool(kSmall + "--save-out " + folder + "x.npy");
  EXPECT_EQ(ran.status, 2);
  EXPECT_SAYS(ran, "cannot write");
}

TEST(Tool, Sweeps) {
  Ran ran = runTool(kNaive + "--cases 40 --max-seqlen 150 --seed 3 --json");
  ASSERT_EQ(ran.status, 0) << ran.text;
  EXPECT_EQ(ran.json()["sweep"]["passed"], 40);
  ran = runTool(kNaive + "--cases 40 --max-seqlen 150 --seed 3",
                "FAKE_CUDA_FAULT=mask");
  EXPECT_EQ(ran.status, 1);
  EXPECT_SAYS(ran, "failed: {\"batch\":");
  EXPECT_SAYS(ran, "exceeds the allowed");
  // A failed case's line repeats it.
  size_t begin = ran.text.find("failed: {") + 8;
  std::string line = ran.text.substr(begin, ran.text.find('\n', begin) - begin);
  std::string path = temporary("fa2-sweep.jsonl");
  std::ofstream(path) << "# one case\n\n" << line << "\n";
  ran = runTool(kNaive + "--sweep " + path, "FAKE_CUDA_FAULT=mask");
  EXPECT_EQ(ran.status, 1) << ran.text;
  EXPECT_SAYS(ran, "0 of 1 cases passed");
  ran = runTool(kNaive + "--sweep " + path);
  EXPECT_EQ(ran.status, 0) << ran.text;
  std::ofstream(path) << "{\"batch\": 1}\n{\"batch\": }\n";
  ran = runTool(kNaive + "--sweep " + path);
  EXPECT_EQ(ran.status, 2);
  EXPECT_SAYS(ran, "line 2: not valid JSON");
  for (auto [field, says] :
       {std::pair<const char *, const char *>{
            "\"batch\": 2.9", "batch is 2.9; it must be a whole"},
        {"\"heads\": 1e40", "heads is 1e+40; it must be a whole"},
        {"\"seed\": -1", "seed is -1; it must be a whole number from 0"},
        {"\"heads\": 18446744073709551615", "it must be a whole number within"},
        {"\"sign\": 1", "sign is 1; it must be true or false"},
        {"\"layout\": \"sbhd\"", "layout is \"sbhd\"; it must be bshd or"},
        {"\"random_scale\": \"1\"", "random_scale is \"1\"; it must be a"},
        {"\"random_scale\": 1e300", "random-scale is 1e+300; it must be"},
        {"\"scale\": 1e999", "not valid JSON"},
        {"\"width\": 1", "no field \"width\""}}) {
    std::ofstream(path) << "{" << field << "}\n";
    expectRefused(2, {{kNaive + "--sweep " + path, "", says}});
  }
  std::ofstream(path) << "{\"batch\": 1, \"heads\": 3, \"heads_kv\": 2}\n";
  ran = runTool(kNaive + "--sweep " + path);
  EXPECT_EQ(ran.status, 2);
  EXPECT_SAYS(ran, "line 1: heads is 3");
  std::remove(path.c_str());
}

TEST(Tool, RefusesBadInput) {
  expectRefused(
      2,
      {
          {"", "", "no PTX file"},
          {"/no/such/file", "", "cannot read /no/such/file"},
          {"/dev/null", "", "is empty"},
          {KERNELS "/naive_forward.cu", "", "no manifest"},
          {kNaive + "--heads 3 --heads-kv 2", "", "heads is 3, not a multiple"},
          {kNaive + "--batch -1", "", "batch is -1"},
          {kNaive + "--scale 0", "", "scale: 0 is not positive"},
          {kNaive + "--scale nan", "", "scale: nan is not"},
          {kNaive + "--scale inf", "", "not a finite"},
          {kNaive + "--device gpu", "", "no device is named 'gpu'"},
          {kNaive + "--device sim:sm_70", "", "sim"},
          {kNaive + "--layout sbhd", "", "layout"},
          {kNaive + "--nonsense", "", "nonsense"},
          {kNaive + "--q /no/such.npy", "", "cannot read"},
          {kNaive + "--image /dev/null", "", "is empty"},
          {kNaive + "--profile --device cuda", "",
           "--profile needs --device sim"},
          {kNaive + "--batch 100000 --heads 100000 --seqlen 100000", "",
           "2^40"},
          {kNaive + "--random-scale inf", "",
           "random-scale is inf; it must be"},
          {kNaive + "--random-scale nan", "",
           "random-scale is nan; it must be"},
          {kNaive + "--random-scale -5000", "", "it must be -4096 to 4096"},
          {kNaive + "--device " + std::string(100000, 'x'), "", "no device is"},
          {std::string(100000, 'x'), "", "cannot read xxx"},
          {kNaive + "--pass " + std::string(100000, 'x'), "", "--pass"},
          {kSmall + "--repeats 0 --save-out /no/such/folder/x", "",
           "cannot write"},
      });
}

TEST(Tool, SaysThatNoDeviceRunsIt) {
  expectRefused(
      3, {{kNaive + "--device cuda:5", "", "cuda:5 does not exist"},
          {kNaive, "FAKE_CUDA_CAPABILITY=75", "has 7.5"},
          {kNaive, "FAKE_CUDA_VERSION=10020", "driver for CUDA 11.0"},
          {kNaive + "--device cuda", "FAKE_CUDA_DEVICES=0", "sees no device"},
          {kNaive + "--device cuda", "FAKE_CUDA_INIT=100", "cuInit"},
          {kNaive + "--device cuda", "LD_LIBRARY_PATH=/nowhere",
           "no CUDA driver"}});
}

// Whoever keeps what is printed must learn that it is not all there.
TEST(Tool, LostOutputIsAFailure) {
  auto statusOf = [](const std::string &arguments) {
    return runTool(arguments + " #").status; // the stream of errors as it says
  };
  const std::string small = kSmall + "--repeats 0 ";
  for (std::string arguments :
       {std::string("--doctor"), std::string("--help"),
        std::string("--doctor --json"), std::string("--version"), small,
        small + "--json", small + "--cases 2"})
    for (const char *to : {" >/dev/full", " >&-", " >/dev/full 2>&-"})
      EXPECT_EQ(statusOf(arguments + to), 2) << arguments << to;
  EXPECT_EQ(statusOf(small + " 2>&- >/dev/null"), 0);
  EXPECT_EQ(statusOf(small + " <&- >/dev/null"), 0);
  EXPECT_EQ(statusOf("/no/such/file 2>&-"), 2);
  EXPECT_EQ(statusOf("/no/such/file --json >&-"), 2);
  // What is saved does not take the closed stream's place.
  std::string path = temporary("fa2-closed.npy");
  EXPECT_EQ(statusOf(small + "--save-out " + path + " >&-"), 2);
  std::remove(path.c_str());
}

TEST(Tool, SavesThroughPipes) {
  Ran ran = runTool(kSmall + "--repeats 0 --json --save-out /dev/stderr 2>&1 "
                             ">/dev/null | head -c 6 | tail -c 5");
  EXPECT_EQ(ran.text, "NUMPY");
}

TEST(Tool, WithoutADevice) {
  // With the simulator built in it serves; else the PTX is only assembled, and
  // the exit status says that nothing ran.
  Ran ran = runTool(kNaive, "LD_LIBRARY_PATH=/nowhere FA2_PTXAS=/bin/true");
#ifdef HAS_SIMULATOR
  EXPECT_EQ(ran.status, 0) << ran.text;
  EXPECT_SAYS(ran, "simulated sm_80");
  ran = runTool(kNaive + "--profile --json", "LD_LIBRARY_PATH=/nowhere");
  ASSERT_EQ(ran.status, 0) << ran.text;
  EXPECT_GT(ran.json()["profile"]["profile"]["warp_instructions"], 0);
  ran =
      runTool(kNaive + "--cases 10 --max-seqlen 70 --device sim:sm_90?seed=2");
  EXPECT_EQ(ran.status, 0) << ran.text;
#else
  EXPECT_EQ(ran.status, 3) << ran.text;
  EXPECT_SAYS(ran, "/bin/true assembles the PTX for sm_80");
  ran = runTool(kNaive, "LD_LIBRARY_PATH=/nowhere FA2_PTXAS=/bin/false");
  EXPECT_EQ(ran.status, 1) << ran.text;
  EXPECT_SAYS(ran, "REFUSES");
#endif
}

#ifdef HAS_SIMULATOR
TEST(Tool, SimulatesADeviceThatRunsTheKernel) {
  std::string kernel = variant(
      "hopper.ptx",
      {{"\"arch\": \"sm_80\", \"family\": false, \"min_compute_capability\": "
        "80",
        "\"arch\": \"sm_90a\", \"family\": true, \"min_compute_capability\": "
        "90"},
       {".version 7.0\n.target sm_80", ".version 8.0\n.target sm_90a"}});
  for (const char *device : {"sim", "'sim?seed=1&sms=3'", "sim:sm_90a"}) {
    Ran ran = runTool(kernel + "--device " + device);
    EXPECT_EQ(ran.status, 0) << ran.text;
    EXPECT_SAYS(ran, "simulated sm_90");
  }
  expectRefused(3, {{kernel + "--device sim:sm_80", "",
                     "for sm_90a, which runs on compute capability 9.0 only"}});
}

TEST(Tool, WhatTheSimulatorCannotDoIsNoVerdict) {
  expectRefused(2,
                {{variant("cannot.ptx", {{"st.global.f32", "st.global.f99"}}) +
                      "--device sim",
                  "", "the simulator cannot take the PTX"},
                 {kNaive + "--device 'sim?resident=4294967297'", "",
                  "resident=4294967297 is not within 0 to 4294967295"},
                 {kNaive + "--device 'sim?sms=0'", "", "not within 1 to"}});
}

TEST(Tool, SaysThatASimulationTakesLong) {
  Ran ran = runTool("--help > /dev/null; timeout 5 " FA2_RUN " " + kNaive +
                    "--device sim --heads 8 --seqlen 20000 --check none 2>&1 | "
                    "head -c 4000000");
  EXPECT_SAYS(ran, "the simulator will take about");
  EXPECT_SAYS(ran, "simulated sm_80"); // the head lines, before the end
}

// As PyTorch gives them, which no address of fa2-run's own would show.
TEST(Tool, EmptyTensorsHaveNoAddress) {
  auto trapsUnless = [](const char *condition) {
    return variant(
        "null.ptx",
        {{"\tld.param.u64 \t%rd13, [naive_forward_param_0];\n",
          std::string(".reg .pred %n;\n"
                      "ld.param.u64 %rd13, [naive_forward_param_1];\n"
                      "setp.") +
              condition +
              ".u64 %n, %rd13, 0;\n@!%n trap;\n"
              "ld.param.u64 %rd13, [naive_forward_param_0];\n"}});
  };
  const std::string small = "--device sim --seqlen-q 40 --seqlen-k ";
  EXPECT_EQ(runTool(trapsUnless("eq") + small + "0").status, 0);
  EXPECT_EQ(runTool(trapsUnless("eq") + small + "1").status, 1);
  EXPECT_EQ(runTool(trapsUnless("ne") + small + "0").status, 1);
  EXPECT_EQ(runTool(trapsUnless("ne") + small + "1").status, 0);
}

TEST(Tool, ZeroedWorkspace) {
  // Every block adds to a word of the workspace and takes `back` away again.
  auto kernel = [](const char *name, const char *back, const char *zeroed) {
    return variant(
        name,
        {{"\"bytes\": 0, \"alignment\": 16",
          std::string("\"bytes\": 8, \"alignment\": 16, \"zeroed\": ") +
              zeroed},
         {"\"of\": \"scale\"}\n",
          "\"of\": \"scale\"},\n// {\"kind\": \"workspace\", \"offset\": 0}\n"},
         {"naive_forward_param_22\n)",
          "naive_forward_param_22,\n.param .u64 workspace\n)"},
         {".reg .b64 \t%rd<69>;\n",
          std::string(".reg .b64 \t%rd<69>;\n.reg .b64 %w;\n.reg .b32 %old;\n"
                      "ld.param.u64 %w, [workspace];\n"
                      "cvta.to.global.u64 %w, %w;\n"
                      "atom.relaxed.gpu.global.add.u32 %old, [%w+4], 1;\n"
                      "atom.relaxed.gpu.global.add.u32 %old, [%w+4], ") +
              back + ";\n"}});
  };
  const std::string small = "--device sim --seqlen 40 --repeats 2";
  Ran ran = runTool(kernel("zeroed.ptx", "-1", "true") + small);
  EXPECT_EQ(ran.status, 0) << ran.text;
  ran = runTool(kernel("left.ptx", "0", "true") + small);
  EXPECT_EQ(ran.status, 1) << ran.text;
  EXPECT_SAYS(ran, "the workspace, whose first bytes every launch is to "
                   "leave zero, holds 64 at byte 4");
  // Without the promise nothing may be read that was not written.
  ran = runTool(kernel("undefined.ptx", "-1", "false") + small);
  EXPECT_EQ(ran.status, 1) << ran.text;
  EXPECT_SAYS(ran, "rule 11");
}
#endif

TEST(Tool, ReadsStandardInput) {
  Ran ran = runTool("- --repeats 0 < " + kNaive);
  EXPECT_EQ(ran.status, 0) << ran.text;
}

TEST(Tool, Doctor) {
  Ran ran = runTool("--doctor");
  EXPECT_EQ(ran.status, 0);
  EXPECT_SAYS(ran, "cuda:1 Fake GPU");
  ran = runTool("--doctor --json");
  EXPECT_EQ(ran.json()["devices"].size(), 2u);
  ran = runTool("--doctor", "LD_LIBRARY_PATH=/nowhere");
  EXPECT_EQ(ran.status, 0);
  EXPECT_SAYS(ran, "driver     none");
  EXPECT_EQ(runTool("--version").status, 0);
  EXPECT_EQ(runTool("--help").status, 0);
}
