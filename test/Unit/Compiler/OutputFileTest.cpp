//===- OutputFileTest.cpp - whole or not at all ---------------------------===//

#include "fa2/Compiler/OutputFile.h"

#include "gtest/gtest.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace {

/// A folder of its own for each test.
class OutputFile : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fa2-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  void put(const fs::path &path, const std::string &text) {
    std::ofstream(path) << text;
  }
  std::string get(const fs::path &path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  size_t filesIn(const fs::path &path) {
    return size_t(std::distance(fs::directory_iterator(path), {}));
  }
  mode_t modeOf(const fs::path &path) {
    struct stat s {};
    EXPECT_EQ(stat(path.c_str(), &s), 0);
    return s.st_mode & 07777;
  }

  fs::path folder;
};

TEST_F(OutputFile, TakesAnyName) {
  // Names that a pattern of temporary files, or one made longer, would break.
  fs::path percent = folder / "100%t%%";
  fs::create_directory(percent);
  for (const std::string &name :
       {std::string("x.ptx"), std::string("50%.ptx"), std::string(255, 'n')}) {
    EXPECT_EQ(fa2::writeFile((percent / name).string(), "text"), "") << name;
    EXPECT_EQ(get(percent / name), "text");
  }
  EXPECT_EQ(filesIn(percent), 3u);
  EXPECT_EQ(fa2::writeFile((folder / "none" / "x").string(), "text"),
            "No such file or directory");
}

TEST_F(OutputFile, KeepsLinks) {
  fs::create_directory(folder / "sub");
  put(folder / "sub" / "there", "before");
  fs::create_symlink("sub/there", folder / "relative");
  fs::create_symlink(folder / "relative", folder / "absolute");
  fs::create_symlink("sub/new", folder / "dangling");
  EXPECT_EQ(fa2::writeFile((folder / "absolute").string(), "after"), "");
  EXPECT_EQ(get(folder / "sub" / "there"), "after");
  EXPECT_EQ(fa2::writeFile((folder / "dangling").string(), "new"), "");
  EXPECT_EQ(get(folder / "sub" / "new"), "new");
  for (const char *link : {"relative", "absolute", "dangling"})
    EXPECT_TRUE(fs::is_symlink(folder / link)) << link;
  fs::create_symlink("round", folder / "round");
  EXPECT_EQ(fa2::writeFile((folder / "round").string(), "x"),
            "Too many levels of symbolic links");
  EXPECT_TRUE(fs::is_symlink(folder / "round"));
}

TEST_F(OutputFile, KeepsTheMode) {
  put(folder / "private", "before");
  ASSERT_EQ(chmod((folder / "private").c_str(), 0600), 0);
  EXPECT_EQ(fa2::writeFile((folder / "private").string(), "after"), "");
  EXPECT_EQ(get(folder / "private"), "after");
  EXPECT_EQ(modeOf(folder / "private"), 0600u);

  mode_t mask = umask(027);
  EXPECT_EQ(fa2::writeFile((folder / "new").string(), "text"), "");
  umask(mask);
  EXPECT_EQ(modeOf(folder / "new"), 0640u);
}

TEST_F(OutputFile, WritesPipesAndOpenFilesInPlace) {
  fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  FILE *reader = popen(("cat '" + pipe.string() + "'").c_str(), "r");
  EXPECT_EQ(fa2::writeFile(pipe.string(), "text"), "");
  char buffer[16] = {};
  EXPECT_EQ(fread(buffer, 1, sizeof buffer, reader), 4u);
  pclose(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));

  // As /dev/stdout is, where a shell appends.
  put(folder / "log", "before ");
  FILE *log = fopen((folder / "log").c_str(), "a");
  fs::create_symlink("/proc/self/fd/" + std::to_string(fileno(log)),
                     folder / "stdout");
  EXPECT_EQ(fa2::writeFile((folder / "stdout").string(), "text"), "");
  fclose(log);
  EXPECT_EQ(get(folder / "log"), "before text");
  EXPECT_TRUE(fs::is_symlink(folder / "stdout"));
}

TEST_F(OutputFile, FullDeviceLeavesNothing) {
  EXPECT_EQ(fa2::writeFile("/dev/full", "text"), "No space left on device");
  EXPECT_EQ(fa2::writeFile(folder.string(), "text"), "Is a directory");
}

// What root may do anywhere.
class OutputFileOfAUser : public OutputFile {
protected:
  void SetUp() override {
    OutputFile::SetUp();
    constexpr uid_t nobody = 65534;
    if (geteuid() == 0) {
      ASSERT_EQ(chown(folder.c_str(), nobody, gid_t(-1)), 0);
      ASSERT_EQ(setresuid(nobody, nobody, 0), 0);
      wasRoot = true;
    }
  }
  void TearDown() override {
    chmod(folder.c_str(), 0700);
    if (wasRoot) {
      ASSERT_EQ(setresuid(0, 0, 0), 0);
    }
    OutputFile::TearDown();
  }
  bool wasRoot = false;
};

TEST_F(OutputFileOfAUser, SaysWhyAFolderTakesNone) {
  put(folder / "x.ptx", "before");
  ASSERT_EQ(chmod(folder.c_str(), 0500), 0);
  EXPECT_EQ(fa2::writeFile((folder / "x.ptx").string(), "after"),
            "no file can be made beside it, to take its place when complete: "
            "Permission denied");
  EXPECT_EQ(get(folder / "x.ptx"), "before");
  EXPECT_EQ(fa2::writeFile((folder / "new").string(), "after"),
            "Permission denied");
}

TEST_F(OutputFileOfAUser, RespectsAReadOnlyFile) {
  put(folder / "x.ptx", "before");
  ASSERT_EQ(chmod((folder / "x.ptx").c_str(), 0400), 0);
  EXPECT_EQ(fa2::writeFile((folder / "x.ptx").string(), "after"),
            "Permission denied");
  EXPECT_EQ(get(folder / "x.ptx"), "before");
  EXPECT_EQ(filesIn(folder), 1u);
}

} // namespace
