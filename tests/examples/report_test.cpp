#include "examples/train_gpt/report.h"

#include <gtest/gtest.h>

namespace train_gpt {
namespace {

RunReport report() {
  RunReport r;
  r.losses = {{1, 5.5}, {2, 5.25}};
  r.last_step = 2;
  r.held_out_loss = 5.375;
  r.state_hash = 0x00ABCDEF01234567;
  r.stats.parameters = 990;
  r.stats.padded_parameters = 1000;
  r.stats.nvme_parameters = 500;
  r.stats.held.nvme_state = 5'000'000;
  r.nvme_read_bytes = r.nvme_written_bytes = 10'000;
  r.step_seconds = 2;
  r.exposed_seconds = 0.25;
  r.update_seconds = 1;
  r.parts = {.accumulate = 1, .units = 4, .forward = 0.5, .backward = 1, .update = 0.25, .io = 1};
  return r;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(ReportTest, TheBestStepIsTheFormulaOfTheArchitecture) {
  StepParts parts{.accumulate = 3, .units = 10, .forward = 2, .backward = 4, .update = 1, .io = 5};
  EXPECT_DOUBLE_EQ(parts.best(), 3 * 4 + 2 * 2 + (5 + 0.2));  // bound by the transfers
  parts.early_read = 0.5;
  EXPECT_DOUBLE_EQ(parts.best(), 3 * 4 + 2 * 2 + (2 + 1));  // bound by the cores
  parts.shared_cores = false;
  EXPECT_DOUBLE_EQ(parts.best(), 3 * 4 + 2 * 2 + (2.5 + 0.2));
}

TEST(ReportTest, RatesAreOfPaddedParametersAndSteps) {
  const RunReport r = report();
  EXPECT_DOUBLE_EQ(r.read_per_parameter(), 5);
  EXPECT_DOUBLE_EQ(r.written_per_parameter(), 5);
  EXPECT_DOUBLE_EQ(r.written_per_day(), 5000 * 86400 / 2.0);
  EXPECT_DOUBLE_EQ(r.tokens_per_second(), 256);
  EXPECT_DOUBLE_EQ(r.ratio(), 2 / (1 + (1 + 0.125)));
  EXPECT_DOUBLE_EQ(r.hidden_share(), 0.75);
  EXPECT_DOUBLE_EQ(r.padding_share(), 10.0 / 990);
}

TEST(ReportTest, TheJsonHoldsEveryLossAndTheHash) {
  const std::string json = to_json(report());
  EXPECT_TRUE(contains(json, R"("schema": "headrace.train/1")")) << json;
  EXPECT_TRUE(contains(json, R"("state_hash": "00abcdef01234567")")) << json;
  EXPECT_TRUE(contains(json, R"("step": 2)")) << json;
  EXPECT_TRUE(contains(json, R"("loss": 5.25)")) << json;
  EXPECT_TRUE(contains(json, R"("bytes_per_parameter_step": 10.0)")) << json;
  EXPECT_TRUE(contains(json, R"("held_out_loss": 5.375)")) << json;
}

TEST(ReportTest, TheTableSaysWhereTheBytesLived) {
  const std::string table = to_table(report());
  for (const char* part : {"optimizer state, NVMe", "5.0 MB", "5.000 B", "75.0 %", "state hash",
                           "00abcdef01234567", "rated endurance"}) {
    EXPECT_TRUE(contains(table, part)) << part << "\n" << table;
  }
}

TEST(ReportTest, ARunWithoutStepsHasATableToo) {
  RunReport r;
  EXPECT_TRUE(contains(to_table(r), "state was in memory"));
  EXPECT_TRUE(contains(to_json(r), R"("losses": [])"));
  EXPECT_TRUE(contains(to_json(r), R"("held_out_loss": null)"));
}

}  // namespace
}  // namespace train_gpt
