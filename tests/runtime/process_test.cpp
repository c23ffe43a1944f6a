// Two processes with one scratch folder: they do not meet, not even after one was killed.
//
// Scratch files have no name, so that nobody can open another one's. What a killed process had
// under way lands in its own file, whose inode lives until the last of it has: the kernel holds a
// reference to the file for each request. A successor has an inode of its own.
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "tests/runtime/small_model.h"
#include "tests/support/child.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using namespace small;

struct Trainer {
  Trainer(IoBackend io, const fs::path& folder) {
    PlatformOptions options;
    options.io = io;
    platform = Platform::open(std::move(options)).value();
    engine = Engine::open(*platform, options_of({.place = Place::nvme}, folder)).value();
  }
  Status run(int from, int to) {
    if (from == 0) HEADRACE_TRY(build(*engine));
    return train(*engine, from, to);
  }
  std::unique_ptr<Platform> platform;
  std::unique_ptr<Engine> engine;
};

std::string trained(IoBackend io, const fs::path& folder, int steps) {
  Trainer trainer(io, folder);
  const Status how = trainer.run(0, steps);
  return how.ok() ? std::to_string(hash(*trainer.engine).value()) : how.to_string();
}

std::string expected(int steps) {
  const Running plain({.place = Place::dram});
  EXPECT_TRUE(train(*plain, 0, steps).ok());
  return std::to_string(hash(*plain).value());
}

// The files in `folder` that a process has open, by device and inode; each has no name any more.
std::set<std::pair<dev_t, ino_t>> unnamed_files(pid_t process, const fs::path& folder) {
  std::set<std::pair<dev_t, ino_t>> files;
  for (const fs::directory_entry& entry :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code gone;
    if (!fs::read_symlink(entry.path(), gone).string().starts_with(folder.string() + "/")) continue;
    struct stat facts {};
    if (::stat(entry.path().c_str(), &facts) != 0) continue;
    EXPECT_EQ(facts.st_nlink, 0u);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
    files.emplace(facts.st_dev, facts.st_ino);
  }
  return files;
}

class TwoProcesses : public testing::TestWithParam<GroundKind> {
 protected:
  IoBackend io() const {
    return GetParam() == GroundKind::uring ? IoBackend::uring : IoBackend::posix;
  }
  void SetUp() override {
    if (GetParam() != GroundKind::uring) return;
    if (const auto made = uring_engine(); !made.ok()) GTEST_SKIP() << made.status().to_string();
  }
  const TemporaryFolder folder;
};

TEST_P(TwoProcesses, InOneFolderDoNotMeet) {
  const std::string wanted = expected(4);
  Child first([this](const Child::Tell&) { return trained(io(), folder.path(), 4); });
  Child second([this](const Child::Tell&) { return trained(io(), folder.path(), 4); });
  EXPECT_EQ(trained(io(), folder.path(), 4), wanted);
  EXPECT_EQ(first.rest(), wanted + "\n");
  EXPECT_EQ(second.rest(), wanted + "\n");
  EXPECT_TRUE(folder.empty());
}

TEST_P(TwoProcesses, WhatAKilledOneHadUnderWayDoesNotReachItsSuccessor) {
  const std::string wanted = expected(4);
  for (int round = 0; round < 3; ++round) {
    Child killed([this](const Child::Tell& tell) {
      Trainer trainer(io(), folder.path());
      for (int step = 0;; ++step) {
        if (const Status how = trainer.run(step, step + 1); !how.ok()) return how.to_string();
        if (step == 0) tell("under way");
      }
    });
    ASSERT_EQ(killed.line(), "under way");
    Trainer successor(io(), folder.path());
    ASSERT_TRUE(successor.run(0, 2).ok());
    const auto theirs = unnamed_files(killed.pid(), folder.path());
    const auto mine = unnamed_files(::getpid(), folder.path());
    EXPECT_FALSE(theirs.empty());
    EXPECT_FALSE(mine.empty());
    for (const auto& file : mine) EXPECT_FALSE(theirs.contains(file));
    killed.kill();
    ASSERT_TRUE(successor.run(2, 4).ok());
    EXPECT_EQ(std::to_string(hash(*successor.engine).value()), wanted);
    EXPECT_TRUE(folder.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Grounds, TwoProcesses,
                         testing::Values(GroundKind::posix, GroundKind::uring), ground_name);

}  // namespace
}  // namespace headrace
