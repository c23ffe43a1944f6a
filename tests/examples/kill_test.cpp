// train_gpt, killed at any moment: what it resumes from ends in the bits of a run that was not.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;

constexpr int kMinute = 60'000;  // milliseconds: the most that anything here is waited for

class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), HEADRACE_BINARY_DIR "/examples/train_gpt");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    const int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Process() {
    if (pid_ <= 0) return;
    kill();
    static_cast<void>(wait());
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  // The exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
};

// Blocks until something is renamed in `folder`, as a finished checkpoint is.
class RenameIn {
 public:
  explicit RenameIn(const fs::path& folder) : fd_(inotify_init1(IN_CLOEXEC)) {
    EXPECT_GE(inotify_add_watch(fd_, folder.c_str(), IN_MOVED_TO), 0);
  }
  ~RenameIn() { close(fd_); }
  bool wait() const {
    pollfd seen{fd_, POLLIN, 0};
    return poll(&seen, 1, kMinute) == 1;
  }

 private:
  const int fd_;
};

std::string hash_in(const fs::path& json) {
  std::stringstream text;
  text << std::ifstream(json).rdbuf();
  const std::string all = text.str();
  const std::regex wanted(R"x("state_hash":\s*"([0-9a-f]+)")x");
  std::smatch match;
  return std::regex_search(all, match, wanted) ? match[1].str() : std::string();
}

class KillTest : public ::testing::Test {
 protected:
  std::vector<std::string> run(std::vector<std::string> more) const {
    std::vector<std::string> all = {"--data",         data_.string(),
                                    "--steps",        "60",
                                    "--layers",       "2",
                                    "--width",        "64",
                                    "--context",      "32",
                                    "--batch",        "1",
                                    "--blas-threads", "1",
                                    "--threads",      "1",
                                    "--state",        "nvme:" + folder_.path().string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::string text() const {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * 7919 % 1000) + "\n";
    return text;
  }

  headrace::TemporaryFolder folder_;
  const fs::path data_ = folder_.write("data/text.txt", text());
};

TEST_F(KillTest, AKilledRunThatIsResumedEndsLikeAnUninterruptedOne) {
  const fs::path whole = folder_.path() / "whole.json", resumed = folder_.path() / "resumed.json";
  ASSERT_EQ(Process(run({"--json", whole.string()})).wait(), 0);
  const std::string expected = hash_in(whole);
  ASSERT_FALSE(expected.empty());
  const std::string saves = (folder_.path() / "saves").string();
  const RenameIn renamed(folder_.path());
  Process killed(run({"--save", saves, "--save-every", "1"}));
  ASSERT_TRUE(renamed.wait());  // the folder's first checkpoint is whole
  killed.kill();
  EXPECT_EQ(killed.wait(), -SIGKILL);
  ASSERT_EQ(Process(run({"--resume", saves, "--json", resumed.string()})).wait(), 0);
  EXPECT_EQ(hash_in(resumed), expected);
}

}  // namespace
}  // namespace train_gpt
