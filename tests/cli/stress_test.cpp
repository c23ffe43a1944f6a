// `headrace stress` as a user runs it: short, with faults, and what it says.
#include "cli/stress.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/command.h"
#include "tests/support/temporary_folder.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

class TheStressCommand : public ::testing::Test {
 protected:
  Outcome run(const std::string& options) const {
    return headrace("stress --scratch " + folder_.string() + " " + options);
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(TheStressCommand, SurvivesOrReportsEveryFaultAndLeavesNothingBehind) {
  const Outcome outcome =
      run("--operations 80 --size 1MiB --seed 7 --json " + (folder_ / "stress.json").string());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "Stress, seed 7")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "All is well: every byte was right")) << outcome.output;
  std::stringstream json;
  json << std::ifstream(folder_ / "stress.json").rdbuf();
  EXPECT_TRUE(contains(json.str(), "\"schema\": \"headrace.stress/1\"")) << json.str();
  EXPECT_FALSE(contains(json.str(), "\"faults\": 0,")) << json.str();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // the JSON
}

TEST_F(TheStressCommand, WithoutFaultsNothingFails) {
  const Outcome outcome = run("--operations 40 --size 1MiB --seed 3 --no-faults --json -");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "\"faults\": 0,")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "\"reported\": 0,")) << outcome.output;
}

TEST_F(TheStressCommand, AFolderThatIsNotThereIsUsage) {
  const Outcome outcome = headrace("stress --scratch /nowhere/at/all --operations 1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(contains(outcome.output, "/nowhere/at/all")) << outcome.output;
}

TEST_F(TheStressCommand, WhatIsWrongIsSaidWithTheSeedThatShowsItAgain) {
  bench::StressSummary summary;
  summary.seed = 42;
  summary.wrong = "step in round 3: another bit";
  EXPECT_TRUE(contains(text_of(summary), "WRONG: step in round 3: another bit"));
  EXPECT_TRUE(contains(text_of(summary), "headrace stress --seed 42"));
}

}  // namespace
}  // namespace headrace::cli
