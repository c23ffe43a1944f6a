// Locks of folders, within a process and between two.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "io/io_engine.h"
#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

class FolderLocks : public testing::Test {
 protected:
  Result<FolderLock> lock() { return engine_->lock_folder(path_); }
  void expect_locked_by(const std::string& who) {
    const Status how = lock().status();
    EXPECT_EQ(how.code(), Code::locked) << how.to_string();
    for (const std::string& word : {path_.string(), who})
      EXPECT_NE(how.message().find(word), std::string_view::npos) << how.to_string();
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<IoEngine> engine_ = posix_engine();
  std::filesystem::path path_ = folder_.path();
};

TEST_F(FolderLocks, OneAtATimeWithinAProcess) {
  {
    const Result<FolderLock> first = lock();
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    expect_locked_by("this process");
  }
  EXPECT_TRUE(lock().ok());
  path_ /= "missing";
  EXPECT_EQ(lock().status().code(), Code::io);
}

TEST_F(FolderLocks, ARenameTakesTheLockAlong) {
  std::filesystem::create_directory(folder_.path() / "a");
  path_ = folder_.path() / "a";
  const Result<FolderLock> first = lock();
  path_ = folder_.path() / "b";
  ASSERT_TRUE(engine_->rename(folder_.path() / "a", path_).ok());
  expect_locked_by("this process");
}

TEST_F(FolderLocks, AnotherProcessIsNamedAndAKilledOneLetsGo) {
  int locked[2];
  ASSERT_EQ(::pipe(locked), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    ::alarm(100);
    const Result<FolderLock> held = lock();
    if (!held.ok() || ::write(locked[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char said = 0;
  ASSERT_EQ(::read(locked[0], &said, 1), 1);
  expect_locked_by("process " + std::to_string(other));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_TRUE(lock().ok());
  for (const int end : locked) ::close(end);
}

}  // namespace
}  // namespace headrace
