#include "cli/doctor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/cli/command.h"
#include "tests/support/temporary_folder.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

class Doctor : public ::testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Doctor, LooksAtEverythingAndLeavesNothingBehind) {
  std::string names;
  for (const Fact& fact : examine({.scratch = folder_})) names += fact.name + ",";
  EXPECT_EQ(names,
            "cpu,numa,memory,memlock,huge pages,io_uring,device,folder,direct I/O,space,drive,");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Doctor, AFolderThatIsNotThereFails) {
  const std::vector<Fact> facts = examine({.scratch = folder_ / "none"});
  ASSERT_FALSE(facts.empty());
  EXPECT_EQ(facts.back().name, "folder");
  EXPECT_EQ(facts.back().verdict, Verdict::fail);
}

TEST_F(Doctor, JsonGoesToTheFileBesideTheText) {
  const Outcome outcome = headrace("doctor --scratch " + folder_.string() + " --json " +
                                   (folder_ / "facts.json").string());
  EXPECT_TRUE(contains(outcome.output, " cpu  ")) << outcome.output;
  std::ifstream file(folder_ / "facts.json");
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(json.starts_with('{') && contains(json, "headrace.doctor/1")) << json;
}

TEST_F(Doctor, JsonAloneGoesToStandardOutput) {
  const Outcome outcome = headrace("doctor --json - --scratch " + folder_.string());
  EXPECT_TRUE(outcome.output.starts_with('{')) << outcome.output;
}

TEST_F(Doctor, ALackingMachineIsThree) {
  const Outcome outcome = headrace("doctor --scratch " + (folder_ / "none").string());
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "[fail]")) << outcome.output;
}

TEST(CommandLine, WrongUseIsTwo) {
  EXPECT_EQ(headrace("").code, 2);
  EXPECT_EQ(headrace("doctor --no-such-option").code, 2);
  EXPECT_EQ(headrace("no-such-command").code, 2);
}

TEST(CommandLine, KnowsItsVersion) {
  const Outcome outcome = headrace("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.output.starts_with("headrace 0.")) << outcome.output;
}

TEST(CommandLine, EachHelpHasAnExample) {
  for (const std::string command :
       {"", "doctor", "bench", "bench adamw", "bench step", "check", "plan"}) {
    const Outcome outcome = headrace(command + " --help");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_TRUE(contains(outcome.output, "Example:\n  headrace ")) << outcome.output;
  }
}

TEST(CommandLine, AnOptionGivenTwiceCountsTheLastTime) {
  EXPECT_EQ(headrace("doctor --scratch /tmp --scratch /no/such/folder").code, 3);
}

}  // namespace
}  // namespace headrace::cli
