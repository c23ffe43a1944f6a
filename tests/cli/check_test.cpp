#include "cli/check.h"

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include "tests/support/temporary_folder.h"
#include "tests/runtime/checkpoint_files.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

Outcome check(const std::string& arguments) { return headrace("check " + arguments); }

class Check : public testing::Test {
 protected:
  Check() { write_checkpoint(folder_, sample_checkpoint(3)); }
  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path() / "checkpoint";
};

TEST_F(Check, AWholeCheckpointIsZero) {
  const Outcome outcome = check(folder_.string());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "save 1, 4 tensors")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "11 blocks")) << outcome.output;
  EXPECT_FALSE(contains(outcome.output, "\r")) << "a progress line without a terminal";
}

TEST_F(Check, ADamagedBlockIsOneAndNamed) {
  flip_byte(folder_ / data_name(1), kBlockElements * 4 + 8);
  const Outcome outcome = check(folder_.string() + " --threads 1");
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "wte master: elements 262144 to 262221")) << outcome.output;
}

TEST_F(Check, ADamagedManifestIsOne) {
  flip_byte(folder_ / kManifestName, 100);
  const Outcome outcome = check(folder_.string());
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "body_checksum")) << outcome.output;
}

TEST_F(Check, WhatIsNoCheckpointIsUsage) {
  EXPECT_EQ(check(temporary_.path().string()).code, 2);
  EXPECT_EQ(check((temporary_.path() / "missing").string()).code, 2);
  EXPECT_EQ(check("").code, 2);
  EXPECT_EQ(check(folder_.string() + " --threads -1").code, 2);
}

TEST_F(Check, HelpShowsAnExample) {
  const Outcome outcome = check("--help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.output, "Example:")) << outcome.output;
}

TEST_F(Check, BlocksPastTheListAreCounted) {
  CheckReport report;
  report.generation = 2;
  report.blocks = 40;
  report.bad_blocks = 3;
  report.bad = {{"w", Kind::exp_avg_sq, 0, 10, 4096}};
  const std::string text = text_of(report, "x");
  EXPECT_TRUE(contains(text, "3 of 40 blocks")) << text;
  EXPECT_TRUE(contains(text, "w exp_avg_sq: elements 0 to 10, at byte 4096 of data-")) << text;
  EXPECT_TRUE(contains(text, "and 2 more")) << text;
}

}  // namespace
}  // namespace headrace::cli
