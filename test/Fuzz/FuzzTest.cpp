//===- FuzzTest.cpp - the targets on their seeds and on edits of them -----===//
//
// What libFuzzer would do, in an order that is always the same and with any
// compiler. A target that finds something aborts: the input is then the file
// whose name is printed before.
//
//===----------------------------------------------------------------------===//

#include "Mutator.h"
#include "Targets.h"

#include "Error.h"
#include "Program.h"
#include "SimDevice.h"
#include "sim/Simulator.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <ostream>
#include <unistd.h>

namespace fa2::fuzz {
/// GoogleTest would print its bytes, addresses among them.
static void PrintTo(const Target &target, std::ostream *out) {
  *out << target.name;
}
} // namespace fa2::fuzz

using namespace fa2::fuzz;

namespace {

std::string current, path;

/// Of an abort or a fault: writes the input down, then dies as before.
void keepInput(int signal) {
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const char *data = current.data();
  if (file >= 0 && write(file, data, current.size()) >= 0 &&
      write(2, "the input is in ", 16) >= 0 &&
      write(2, path.data(), path.size()) >= 0)
    (void)!write(2, "\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class Fuzz : public testing::TestWithParam<Target> {
protected:
  void SetUp() override {
    path = testing::TempDir() + "fa2-fuzz-" + GetParam().name;
    for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS})
      std::signal(signal, keepInput);
  }
  void TearDown() override {
    for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS})
      std::signal(signal, SIG_DFL);
  }
  void run(std::string input) {
    current = std::move(input);
    GetParam().run(current);
  }
};

} // namespace

TEST_P(Fuzz, Seeds) {
  for (const std::string &seed : GetParam().seeds())
    run(seed);
  run("");
  run(std::string(1, '\0'));
}

// FA2_FUZZ_SEED and FA2_FUZZ_FACTOR: others, and more of them.
TEST_P(Fuzz, Edits) {
  auto number = [](const char *name, uint64_t otherwise) {
    const char *text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  std::mt19937_64 random(number("FA2_FUZZ_SEED", 1));
  std::vector<std::string> seeds = GetParam().seeds();
  uint64_t count =
      uint64_t(GetParam().mutations) * number("FA2_FUZZ_FACTOR", 1);
  for (uint64_t i = 0; i < count; ++i)
    run(mutate(seeds, random));
}

// A seed that is refused at its first line teaches nothing.
TEST(FuzzSeeds, AreWhatTheyAreTakenFor) {
  for (const std::string &seed : ptxSeeds()) {
    auto parsed = fa2::sim::parse(Choices(seed).text);
    EXPECT_TRUE(bool(parsed))
        << seed << "\nline " << parsed.error.line << ": " << parsed.error.text;
  }
  size_t loaded = 0;
  auto device = fa2rt::openSimDevice("sm_90");
  for (const std::string &seed : programSeeds()) {
    std::string_view text = Choices(seed).text;
    try {
      fa2rt::Program(*device, text, {});
      ++loaded;
    } catch (const fa2rt::Error &error) {
      // Of what was made to mislead, that alone may be in the way.
      EXPECT_NE(std::string(error.what()).find("the manifest gives"),
                std::string::npos)
          << text << error.what();
    }
  }
  EXPECT_GE(loaded, 9u);
}

INSTANTIATE_TEST_SUITE_P(, Fuzz, testing::ValuesIn(targets()),
                         [](const testing::TestParamInfo<Target> &info) {
                           return std::string(info.param.name);
                         });
