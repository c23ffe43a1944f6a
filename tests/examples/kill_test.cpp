// train_gpt, killed at any moment: what it resumes from ends in the bits of a run that was not.
#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint_tools.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using headrace::Program;

constexpr int kMinute = 60'000;  // milliseconds: the most that anything here is waited for

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
    all.insert(all.begin(), HEADRACE_BINARY_DIR "/examples/train_gpt");
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  static int code_of(const std::vector<std::string>& words) {
    return Program(words, Program::Output::dropped).wait();
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
  ASSERT_EQ(code_of(run({"--json", whole.string()})), 0);
  const std::string expected = hash_in(whole);
  ASSERT_FALSE(expected.empty());
  const std::string saves = (folder_.path() / "saves").string();
  const RenameIn renamed(folder_.path());
  Program killed(run({"--save", saves, "--save-every", "1"}), Program::Output::dropped);
  ASSERT_TRUE(renamed.wait());  // the folder's first checkpoint is whole
  killed.kill();
  EXPECT_EQ(killed.wait(), -SIGKILL);
  ASSERT_EQ(code_of(run({"--resume", saves, "--json", resumed.string()})), 0);
  EXPECT_EQ(hash_in(resumed), expected);
}

// Twenty runs, each killed ten times: after so many checkpoints, and then at any moment.
class StressKill : public KillTest {
 protected:
  void kill_ten_times(const fs::path& saves) {
    for (int kill = 0; kill < 10; ++kill) {
      const RenameIn renamed(folder_.path());
      std::vector<std::string> more = {"--save", saves.string(), "--save-every", "1"};
      if (fs::exists(saves)) more.insert(more.end(), {"--resume", saves.string()});
      Program program(run(more), Program::Output::dropped);
      const bool first = !fs::exists(saves);
      ASSERT_TRUE(!first || random_() % 2 == 0 || renamed.wait());
      pass(std::chrono::microseconds(random_() % 400'000));
      program.kill();
      const int code = program.wait();
      ASSERT_TRUE(code == -SIGKILL || code == 0) << code;
      if (!fs::exists(saves)) continue;
      const auto report = headrace::check_checkpoint(saves, {.threads = 1});
      ASSERT_TRUE(report.ok()) << report.status().to_string();
      ASSERT_TRUE(report->whole());
    }
  }
  // Burns the time: nothing is waited for, the moment is to be any.
  static void pass(std::chrono::microseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  std::mt19937_64 random_;
};

TEST_F(StressKill, TwoHundredKillsLoseNothingThatWasFinished) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  random_.seed(seed);
  const fs::path json = folder_.path() / "run.json";
  ASSERT_EQ(code_of(run({"--json", json.string()})), 0);
  const std::string expected = hash_in(json);
  for (int round = 0; round < 20; ++round) {
    const fs::path saves = folder_.path() / ("saves" + std::to_string(round));
    ASSERT_NO_FATAL_FAILURE(kill_ten_times(saves)) << "round " << round;
    std::vector<std::string> more = {"--json", json.string()};
    if (fs::exists(saves)) more.insert(more.end(), {"--resume", saves.string()});
    fs::remove(json);
    ASSERT_EQ(code_of(run(more)), 0);
    ASSERT_EQ(hash_in(json), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace train_gpt
