//===- FilesTest.cpp - files are written whole or not at all --------------===//

#include "Files.h"

#include "Refusal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

using namespace fa2run;
using namespace fa2run::test;
namespace fs = std::filesystem;

namespace {

/// A folder of the test's own, gone at its end.
struct Files : testing::Test {
  fs::path folder;
  void SetUp() override {
    std::string pattern = testing::TempDir() + "fa2-files-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const char *name) const { return folder / name; }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto &entry : fs::directory_iterator(folder))
      all.insert(entry.path().filename());
    return all;
  }
};

} // namespace

TEST_F(Files, AreWrittenWholeOrNotAtAll) {
  writeFile(path("x"), "first");
  EXPECT_EQ(readFile(path("x")), "first");
  writeFile(path("x"), "");
  EXPECT_EQ(readFile(path("x")), "");
  EXPECT_EQ(names(), std::set<std::string>{"x"});
  EXPECT_CONTAINS(refusalOf([] { writeFile("/no/such/folder/x", "1"); }),
                  "cannot write /no/such/folder/x: No such file");
  EXPECT_CONTAINS(refusalOf([] { readFile("/no/such/file"); }),
                  "cannot read /no/such/file: No such file");
  EXPECT_CONTAINS(refusalOf([] { readFile("/tmp"); }), "cannot read /tmp");
  EXPECT_CONTAINS(refusalOf([&] { writeFile(folder, "1"); }), "Is a directory");
  EXPECT_EQ(names(), std::set<std::string>{"x"});
}

// A file of that name that is no regular one is written, not replaced.
TEST_F(Files, PipesAndDevicesStay) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = readFile(path("pipe")); });
  writeFile(path("pipe"), "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(names(), std::set<std::string>{"pipe"});
  fs::create_symlink("/dev/full", path("device"));
  EXPECT_CONTAINS(refusalOf([&] { writeFile(path("device"), "1"); }),
                  "No space left");
  EXPECT_TRUE(fs::is_symlink(path("device")));
  EXPECT_TRUE(fs::is_character_file(path("device")));
}

TEST_F(Files, LinksAndModesStay) {
  writeFile(path("file"), "old");
  ASSERT_EQ(chmod(path("file").c_str(), 0640), 0);
  fs::create_symlink("file", path("link"));
  writeFile(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(readFile(path("file")), "new");
  EXPECT_EQ(fs::status(path("file")).permissions(), fs::perms(0640));
  mode_t mask = umask(027);
  writeFile(path("fresh"), "1");
  umask(mask);
  EXPECT_EQ(fs::status(path("fresh")).permissions(), fs::perms(0640));
}

// The name that the temporary had once, with a link in its place.
TEST_F(Files, TemporariesFollowNoLink) {
  writeFile(path("victim"), "precious");
  std::string old = path("x") + "." + std::to_string(getpid()) + ".tmp";
  fs::create_symlink("victim", old);
  writeFile(path("x"), "1");
  EXPECT_EQ(readFile(path("victim")), "precious");
  EXPECT_FALSE(fs::is_symlink(path("x")));
}
