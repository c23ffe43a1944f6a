// A training program killed at any moment, again and again: the newest finished checkpoint is
// whole, and what is resumed from it ends in the bits of a run that was never interrupted.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <string>

#include "runtime/checkpoint_tools.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 60;
constexpr int kKills = 20;

std::vector<std::string> driver(const fs::path& folder) {
  return {HEADRACE_BINARY_DIR "/tests/kill_driver", folder.string(), std::to_string(kSteps)};
}

int number_in(const std::string& line) { return std::stoi(line.substr(line.find(' '))); }

std::string hash_after(Program& program) {
  std::string last;
  for (std::string line = program.line(); !line.empty(); line = program.line()) last = line;
  EXPECT_EQ(program.wait(), 0);
  EXPECT_TRUE(last.starts_with("hash ")) << last;
  return last;
}

// Burns the time: nothing is waited for, the moment is to be any.
void pass(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

struct Killing {
  const TemporaryFolder folder;
  const fs::path checkpoint = folder.path() / "checkpoint";
  int saved = 0;  // the last step whose save was said to be over
  std::mt19937_64 random;

  // Runs until some lines after the start, and then some microseconds.
  void run_and_kill() {
    Program program(driver(folder.path()));
    for (std::uint64_t lines = random() % 6; lines > 0; --lines) read(program);
    pass(std::chrono::microseconds(random() % 4'000));
    program.kill();
    EXPECT_EQ(program.wait(), -SIGKILL);
    while (read(program)) {
    }
  }

  bool read(const Program& program) {
    const std::string line = program.line();
    if (line.starts_with("saved ")) saved = number_in(line);
    return !line.empty();
  }

  void expect_whole() const {
    if (saved == 0 && !fs::exists(checkpoint)) return;
    const Result<CheckReport> report = check_checkpoint(checkpoint, {.threads = 1});
    ASSERT_TRUE(report.ok()) << report.status().to_string();
    EXPECT_TRUE(report->whole());
    EXPECT_GE(report->generation, static_cast<std::uint64_t>(saved));  // a save each step
  }
};

TEST(Kill, AtAnyMomentTheNewestFinishedCheckpointIsWholeAndGoesOnInTheSameBits) {
  const TemporaryFolder calm;
  Program uninterrupted(driver(calm.path()));
  const std::string expected = hash_after(uninterrupted);
  Killing killing;
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  killing.random.seed(seed);
  for (int kill = 0; kill < kKills; ++kill) {
    killing.run_and_kill();
    ASSERT_NO_FATAL_FAILURE(killing.expect_whole()) << "kill " << kill;
  }
  EXPECT_GT(killing.saved, 0);
  Program last(driver(killing.folder.path()));
  EXPECT_EQ(hash_after(last), expected);
}

}  // namespace
}  // namespace headrace
