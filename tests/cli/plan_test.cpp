#include "cli/plan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "io/bytes.h"
#include "tests/cli/command.h"
#include "tests/support/temporary_folder.h"

namespace headrace::cli {
namespace {

// 32 units of 2 shards each, all on NVMe: 32 x 2 x 1 Mi parameters, 10 MiB of state a shard.
PlanOptions known() {
  PlanOptions options;
  options.parameters = 64 * kMiB;
  options.dram_bytes = 40 * kMiB;
  options.shard_bytes = 10 * kMiB;
  options.forward = 0.1;
  options.backward = 0.2;
  options.nvme_read = 1'000'000'000;
  options.nvme_write = 1'000'000'000;
  options.update = 100'000'000'000;
  return options;
}

PlanReport plan_of(const PlanOptions& options) {
  const Result<PlanReport> report = make_plan(options);
  EXPECT_TRUE(report.ok()) << report.status().to_string();
  return report.ok() ? *report : PlanReport();
}

TEST(Plan, KnowsWhereEachByteLies) {
  const PlanReport report = plan_of(known());
  EXPECT_EQ(report.stats.parameters, 64 * kMiB);
  EXPECT_EQ(report.stats.padded_parameters, 64 * kMiB);
  EXPECT_EQ(report.stats.nvme_shards, 64u);
  EXPECT_EQ(report.stats.held.slots, 40 * kMiB);
  EXPECT_EQ(report.stats.held.nvme_state, 640 * kMiB);
  EXPECT_EQ(report.stats.held.params, 128 * kMiB);
  EXPECT_EQ(report.stats.held.gradients, 128 * kMiB);
  EXPECT_EQ(report.read_bytes, 640 * kMiB);
  EXPECT_EQ(report.written_bytes, 640 * kMiB);
}

TEST(Plan, AStepTakesWhatTheFormulaSays) {
  const PlanReport report = plan_of(known());
  const double io = 2 * 640 * kMiB / 1e9;
  EXPECT_DOUBLE_EQ(report.parts.io, io);
  EXPECT_DOUBLE_EQ(report.best_seconds, 0.2 + io * 60 / 64 + 0.1 / 32);
  EXPECT_NEAR(report.step_seconds, report.best_seconds, 0.02 * report.best_seconds);
  EXPECT_EQ(report.limit.resource, "nvme0");
  EXPECT_GT(report.limit.busy, 0.8);
  EXPECT_LT(report.hidden, 0.2);
}

TEST(Plan, ASlowModelHidesTheUpdate) {
  PlanOptions options = known();
  options.forward = 3;
  options.backward = 6;
  const PlanReport report = plan_of(options);
  EXPECT_NEAR(report.step_seconds, 9, 0.02);
  EXPECT_EQ(report.limit.resource, "compute");
  EXPECT_GT(report.hidden, 0.98);
  EXPECT_EQ(report.hiding_share, 0);
}

TEST(Plan, ASlowMemoryIsTheLimitWhereItIs) {
  PlanOptions options = known();
  options.dram_bytes = 0;
  options.update = 1'000'000'000;
  const PlanReport report = plan_of(options);
  EXPECT_EQ(report.limit.resource, "optimizer");
  EXPECT_EQ(report.stats.nvme_shards, 0u);
  EXPECT_EQ(report.written_bytes, 0u);
  EXPECT_EQ(report.stats.held.dram_state, 640 * kMiB);
}

TEST(Plan, MicroBatchesTakeTimeAndKeepGradientsInFp32) {
  PlanOptions options = known();
  options.micro_batches = 4;
  const PlanReport report = plan_of(options);
  EXPECT_EQ(report.stats.held.gradients, 256 * kMiB);
  EXPECT_NEAR(report.step_seconds, plan_of(known()).step_seconds + 3 * 0.3, 0.05);
}

TEST(Plan, TheShareThatHidesDoesSo) {
  PlanOptions options = known();
  options.forward = 0.8;
  options.backward = 1.6;
  const PlanReport report = plan_of(options);
  EXPECT_GT(report.hiding_share, 0.3);
  EXPECT_LT(report.hiding_share, 0.5);
  EXPECT_EQ(report.hiding_limit.resource, "compute");
  options.dram_bytes = report.hiding_bytes;
  EXPECT_DOUBLE_EQ(plan_of(options).step_seconds, report.hiding_seconds);
}

TEST(Plan, TheMixedRateIsWhatBothTakeTogether) {
  PlanOptions options = known();
  options.nvme_mixed = 500'000'000;
  EXPECT_DOUBLE_EQ(plan_of(options).parts.io, 2 * 640 * kMiB / 0.5e9);
}

TEST(Plan, EnduranceCountsWhatIsWritten) {
  const PlanReport report = plan_of(known());
  const double steps_a_day = 86'400 / report.step_seconds;
  EXPECT_DOUBLE_EQ(written_a_day(report), steps_a_day * 640 * kMiB);
  EXPECT_DOUBLE_EQ(days_of_endurance(report), 600e12 / (steps_a_day * 640 * kMiB));
}

TEST(Plan, ALargeModelNeedsNoMemoryOfItsOwn) {
  PlanOptions options;
  options.parameters = 7'000'000'000;
  options.dram_bytes = 16'000'000'000;
  options.shard_bytes = 128 * kMiB;
  const PlanReport report = plan_of(options);
  EXPECT_GT(report.stats.held.dram_state, 15'000'000'000u);
  EXPECT_NEAR(static_cast<double>(report.stats.held.nvme_state), 54e9, 1e9);
}

TEST(Plan, ABudgetThatCannotWorkIsToldWithTheSum) {
  PlanOptions options = known();
  options.dram_bytes = 30 * kMiB;
  const Result<PlanReport> report = make_plan(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), Code::out_of_memory);
  EXPECT_TRUE(contains(report.status().message(), "4 slots of 10.5 MB (= 41.9 MB)"))
      << report.status().to_string();
}

TEST(Plan, TextSaysWhatLiesWhereAndWhatLimits) {
  const std::string text = text_of(plan_of(known()));
  for (const char* part :
       {"67108864 parameters in 32 units, state split: 4 slots of 10.5 MB", "DRAM  slots  ",
        "NVMe  state                     671 MB", "limited by nvme0, busy for ", "in DRAM: --dram ",
        "a rating of 600 TB written lasts ", "Assumed: NVMe reads 1.00 GB/s"})
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
}

TEST(Plan, JsonHasItsSchema) {
  const std::string json = json_of(plan_of(known()));
  EXPECT_TRUE(json.starts_with("{\n  \"schema\": \"headrace.plan/1\",\n  \"version\": ")) << json;
  for (const char* key :
       {"\"model\": {", "\"padded_parameters\": 67108864", "\"machine\": {", "\"measured\": false",
        "\"nvme_mixed_bytes_per_second\": null", "\"placement\": \"4 slots", "\"bytes\": {",
        "\"slots\": 41943040", "\"step\": {", "\"limited_by\": \"nvme0\"", "\"hiding\": {",
        "\"written_bytes_per_step\": 671088640", "\"days_of_endurance\": "})
    EXPECT_TRUE(contains(json, key)) << key << "\n" << json;
}

TEST(PlanCommand, PrintsTextAndWritesJson) {
  const TemporaryFolder folder;
  const std::string json = folder.path() / "plan.json";
  const Outcome outcome =
      headrace("plan --params 100M --dram 200MB --units 8 --forward 0.1 --json " + json);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "What lies where")) << outcome.output;
  std::ifstream file(json);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(contains(text, "\"parameters\": 100000000")) << text;
  EXPECT_TRUE(contains(text, "\"backward_seconds\": 0.2,")) << text;
  EXPECT_TRUE(headrace("plan --params 100M --json -").output.starts_with('{'));
}

TEST(PlanCommand, WrongUseIsTwoAndNamesTheOption) {
  const auto refused = [](const std::string& arguments, const std::string& name) {
    const Outcome outcome = headrace("plan " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << ": " << outcome.output;
    EXPECT_TRUE(contains(outcome.output, name)) << outcome.output;
  };
  refused("", "--params");
  refused("--params many", "--params");
  refused("--params 0", "--params");
  refused("--params 1e9 --units 0", "--units");
  refused("--params 1e9 --accumulate 0", "--accumulate");
  refused("--params 1e9 --forward -1", "--forward");
  refused("--params 1e9 --tokens 0", "--tokens");
  refused("--params 1e9 --flops nan", "--flops");
  refused("--params 1e9 --nvme-bandwidth 1GB,fast", "--nvme-bandwidth");
  refused("--params 1e9 --nvme-bandwidth 0", "--nvme-bandwidth");
  refused("--params 1e9 --memory-bandwidth 0", "--memory-bandwidth");
  refused("--params 1e9 --measure /no/such/folder", "--measure");
  refused("--params 1e9 --format fp8", "--format");
  refused("--params 1e9 --slots 1", "slots");
}

TEST(PlanCommand, ABudgetThatCannotWorkIsThree) {
  EXPECT_EQ(headrace("plan --params 1e9 --dram 1MiB --shard 1MiB").code, 3);
}

}  // namespace
}  // namespace headrace::cli
