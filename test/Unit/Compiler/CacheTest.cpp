//===- CacheTest.cpp - what was compiled, on disk -------------------------===//

#include "fa2/Compiler/Cache.h"
#include "fa2/Compiler/Compiler.h"

#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

using namespace fa2;
namespace fs = std::filesystem;

namespace {

class CacheTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) / ("fa2-cache-" + number());
    fs::remove_all(folder);
  }
  void TearDown() override { fs::remove_all(folder); }
  static std::string number() {
    static int count = 0;
    return std::to_string(getpid()) + "-" + std::to_string(count++);
  }

  Cache cache(uint64_t limit = 1 << 20) const {
    return Cache(folder.string(), limit);
  }
  /// A name by a letter.
  static std::string name(char letter) { return std::string(64, letter); }
  fs::path fileOf(char letter) const {
    return folder / (name(letter) + ".ptx");
  }
  std::string get(char letter) const {
    std::string warning;
    auto content = cache().get(name(letter), warning);
    return content.value_or("nothing") + (warning.empty() ? "" : " damaged");
  }
  std::string letters() const {
    std::set<char> found;
    for (const auto &entry : fs::directory_iterator(folder))
      found.insert(entry.path().filename().string().front());
    return {found.begin(), found.end()};
  }

  fs::path folder;
};

std::string read(const fs::path &path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const fs::path &path, llvm::StringRef text) {
  std::ofstream(path, std::ios::binary) << text.str();
}

void setAge(const fs::path &path, int seconds) {
  fs::last_write_time(path, fs::file_time_type::clock::now() -
                                std::chrono::seconds(seconds));
}

TEST_F(CacheTest, KeepsWhatWasPut) {
  EXPECT_EQ(get('a'), "nothing");
  std::string content("line\n\0end", 9);
  EXPECT_EQ(cache().put(name('a'), content), "");
  EXPECT_EQ(get('a'), content);
  EXPECT_EQ(cache().put(name('b'), ""), "");
  EXPECT_EQ(get('b'), "");
  EXPECT_EQ(letters(), "ab");
}

TEST_F(CacheTest, EveryDamageIsSeen) {
  ASSERT_EQ(cache().put(name('a'), "text"), "");
  std::string whole = read(fileOf('a'));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = char(changed[i] ^ 1);
    write(fileOf('a'), changed);
    EXPECT_EQ(get('a'), "nothing damaged") << i;
    write(fileOf('a'), llvm::StringRef(whole).take_front(i));
    EXPECT_EQ(get('a'), "nothing damaged") << i;
  }
  ASSERT_EQ(cache().put(name('a'), "text"), "");
  EXPECT_EQ(get('a'), "text");
}

TEST_F(CacheTest, WhatWasNotUsedForLongestGoesFirst) {
  std::string content(50, 'x');
  for (char letter : {'a', 'b', 'c', 'd'}) {
    ASSERT_EQ(cache().put(name(letter), content), "");
    setAge(fileOf(letter), 100 - letter + 'a');
  }
  uint64_t each = fs::file_size(fileOf('a'));
  EXPECT_EQ(get('a'), content); // is the latest used now
  write(folder / "other", std::string(10000, 'x'));
  ASSERT_EQ(cache(3 * each).put(name('e'), content), "");
  EXPECT_EQ(letters(), "adeo");
  EXPECT_EQ(cache().size(), 3 * each);
  // What does not fit is not kept, and puts nothing out.
  ASSERT_EQ(cache(3 * each).put(name('f'), std::string(3 * each, 'x')), "");
  EXPECT_EQ(letters(), "adeo");
}

TEST_F(CacheTest, WhatKilledProcessesLeftGoes) {
  fs::create_directories(folder);
  for (const char *name : {".fa2-old.tmp", ".fa2-new.tmp"})
    write(folder / name, "");
  setAge(folder / ".fa2-old.tmp", 2 * 3600);
  ASSERT_EQ(cache().put(name('a'), "text"), "");
  EXPECT_FALSE(fs::exists(folder / ".fa2-old.tmp"));
  EXPECT_TRUE(fs::exists(folder / ".fa2-new.tmp"));
}

TEST_F(CacheTest, FoldersThatCannotBeWritten) {
  fs::create_directories(folder);
  write(folder / "file", "");
  Cache bad((folder / "file").string(), 1 << 20);
  std::string why = bad.put(name('a'), "text"), warning;
  EXPECT_NE(why.find("compiled kernels cannot be kept in " + bad.folder()),
            std::string::npos)
      << why;
  EXPECT_FALSE(bad.get(name('a'), warning));
  EXPECT_EQ(bad.size(), 0u);
  // In the place of an entry lies what cannot be read, or never ends.
  ASSERT_EQ(mkfifo(fileOf('b').c_str(), 0600), 0);
  fs::create_directory(fileOf('c'));
  EXPECT_EQ(get('b') + get('c'), "nothingnothing");
  EXPECT_NE(cache().put(name('c'), "text"), "");
}

// Readers and writers of one folder that is always full.
TEST_F(CacheTest, SeveralProcesses) {
  std::vector<pid_t> children;
  for (int seed : {1, 3, 7}) {
    children.push_back(fork());
    if (children.back() != 0)
      continue;
    for (int i = 0; i < 200; ++i) {
      char letter = char('0' + i * seed % 10);
      std::string wanted(100, letter), warning;
      auto found = cache(900).get(name(letter), warning);
      if ((found && *found != wanted) || !warning.empty() ||
          !cache(900).put(name(letter), wanted).empty())
        _exit(1);
    }
    _exit(0);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(cache().size(), 900u);
  for (char letter : letters())
    EXPECT_EQ(get(letter), std::string(100, letter));
}

class CompileCachedTest : public CacheTest {
protected:
  Compilation compiled(Specification spec, CompileOptions options = {},
                       std::optional<llvm::StringRef> source = {}) {
    if (spec.cache.empty())
      spec.cache = folder.string();
    auto result = compileCached(spec, options, error, source);
    EXPECT_TRUE(mlir::succeeded(result)) << error;
    return mlir::succeeded(result) ? *result : Compilation();
  }
  static Specification small() {
    Specification spec;
    spec.headDim = 16;
    spec.variants = "seqlen_k <= 32: block_q=32,warps=2";
    return spec;
  }
  std::string error;
};

TEST_F(CompileCachedTest, HitsAreWhatWasCompiled) {
  Compilation first = compiled(small()), second = compiled(small());
  EXPECT_FALSE(first.cached);
  EXPECT_TRUE(second.cached);
  EXPECT_FALSE(first.text.empty());
  EXPECT_EQ(first.text, second.text);
  EXPECT_EQ(first.kernel, second.kernel);
  EXPECT_EQ(first.schedule, second.schedule);
  EXPECT_EQ(first.choices, second.choices);
  EXPECT_EQ(first.reasons, second.reasons);
  EXPECT_EQ(first.warnings, second.warnings);
  EXPECT_EQ(first.notes, second.notes);
  EXPECT_EQ(first.sharedBytes, second.sharedBytes);
  EXPECT_EQ(first.threads, second.threads);
  ASSERT_EQ(second.variants.size(), 1u);
  EXPECT_EQ(first.variants[0].when, second.variants[0].when);
  EXPECT_EQ(second.times.size(), 1u);
}

TEST_F(CompileCachedTest, AllThatMattersIsInTheName) {
  std::vector<Specification> others(1, small());
  for (const char *text :
       {"pass=backward variants=none", "arch=sm_86", "dtype=f16", "head_dim=24",
        "head_dim_v=24", "mask=causal", "softcap=20", "alibi=head", "bias=key",
        "stages=1", "variants=none"})
    EXPECT_EQ(others.emplace_back(small()).setAll(text), "");
  for (const Specification &spec : others)
    EXPECT_FALSE(compiled(spec).cached) << spec.identity();
  for (const Specification &spec : others)
    EXPECT_TRUE(compiled(spec).cached) << spec.identity();
  Specification explicitly = small();
  explicitly.headDimV = 16;
  EXPECT_TRUE(compiled(explicitly).cached);

  CompileOptions lines, schedules;
  lines.lineInfo = true;
  schedules.emit = OutputKind::FA2;
  EXPECT_FALSE(compiled(small(), lines).cached);
  EXPECT_FALSE(compiled(small(), schedules).cached);
}

TEST_F(CompileCachedTest, ADatabaseCountsByWhatItHolds) {
  fs::create_directories(folder);
  Specification spec = small();
  spec.database = (folder / "database").string();
  write(spec.database, R"({"fa2_schedules": 1, "rows": []})");
  EXPECT_FALSE(compiled(spec).cached);
  EXPECT_TRUE(compiled(spec).cached);
  write(spec.database, R"({"fa2_schedules": 1, "rows": [] })");
  EXPECT_FALSE(compiled(spec).cached);
}

TEST_F(CompileCachedTest, WhoeverWatchesSeesStages) {
  compiled(small());
  int stages = 0;
  CompileOptions options;
  options.onStage = [&](llvm::StringRef, llvm::StringRef) { ++stages; };
  EXPECT_FALSE(compiled(small(), options).cached);
  EXPECT_GT(stages, 5);
}

TEST_F(CompileCachedTest, DamageIsSaid) {
  Compilation first = compiled(small());
  for (const auto &entry : fs::directory_iterator(folder))
    fs::resize_file(entry, fs::file_size(entry) - 100);
  Compilation again = compiled(small());
  EXPECT_FALSE(again.cached);
  EXPECT_EQ(again.text, first.text);
  EXPECT_NE(again.cacheWarning.find("is damaged"), std::string::npos);
  EXPECT_EQ(compiled(small()).cacheWarning, "");
}

} // namespace
