#include "bench/train_bench.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/training.h"
#include "tests/bench/rows.h"
#include "tests/support/temporary_folder.h"

namespace headrace::bench {
namespace {

TEST(Training, FormulaIsTheOneOfTheLazyStep) {
  StepParts parts{.forward = 10, .backward = 20, .io = 8, .slots_of_shards = 0.25, .units = 10};
  EXPECT_DOUBLE_EQ(best_step_seconds(parts), 20 + 10);
  parts.io = 40;
  EXPECT_DOUBLE_EQ(best_step_seconds(parts), 20 + 30 + 1);
  parts.in_dram = 0.5;
  EXPECT_DOUBLE_EQ(best_step_seconds(parts), 20 + 15 + 1);
  parts.micro_batches = 3;
  EXPECT_DOUBLE_EQ(best_step_seconds(parts), 3 * 20 + 2 * 10 + 15 + 1);
  parts.update = 7;
  EXPECT_DOUBLE_EQ(best_step_seconds(parts), 3 * 20 + 2 * 10 + 15 + 1);
  parts.shared_cores = true;
  EXPECT_DOUBLE_EQ(best_step_seconds(parts), 3 * 20 + 2 * 10 + 10 + 7);
}

TEST(Training, ShareThatHidesIsTheLeastWithWhichTheUpdateTakesNoTime) {
  StepParts parts{.forward = 10, .backward = 20, .io = 40, .slots_of_shards = 0.25, .units = 10};
  parts.in_dram = share_that_hides(parts);
  EXPECT_DOUBLE_EQ(parts.in_dram, 0.7);
  EXPECT_DOUBLE_EQ(best_step_seconds(parts), 30);
  parts.in_dram -= 0.01;
  EXPECT_GT(best_step_seconds(parts), 30.1);
  parts.io = 4;
  EXPECT_EQ(share_that_hides(parts), 0);
}

// 24 equal units, 48 shards, 3 slots, in virtual time. No rate is that of the machine.
TrainBenchOptions small() {
  TrainBenchOptions options;
  options.folder = "/disk0";
  options.io_over_forward = {0.3, 0.6, 1, 1.5, 3};
  options.state_bytes = 48 * 10 * kShardElements;
  options.shard_bytes = 10 * kShardElements;
  options.steps = 3;
  return options;
}

// Transfers of a shard take 10 ms, an update 1 ms.
SimulationOptions slow(std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.disk_read_bytes_per_second = 100 * 10 * kShardElements;
  options.disk_write_bytes_per_second = options.disk_read_bytes_per_second;
  options.copy_bytes_per_second = options.disk_read_bytes_per_second;
  options.update_bytes_per_second = 24 * 1000 * kShardElements;
  options.queue.chunk_bytes = 4 * kKiB;
  options.queue.in_flight_bytes = 40 * kKiB;
  return options;
}

TEST(TrainBench, InVirtualTimeAStepIsTheFormulaWithinTwoPercent) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    const auto platform = Platform::simulate(slow(seed));
    Report report;
    const Status status = train_rows(*platform, small(), report);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_EQ(report.rows.size(), 5u);
    for (const Row& row : report.rows)
      EXPECT_LE(row.value, 1.02 * row.bound) << row.name << ": " << row.value << " s";
  }
}

TEST(TrainBench, InVirtualTimeAShareOfTheStateInDramIsInTheFormula) {
  for (const double share : {1 / 3.0, 2 / 3.0}) {
    SCOPED_TRACE(share);
    const auto platform = Platform::simulate(slow(1));
    Report report;
    TrainBenchOptions options = small();
    options.dram_share = share;
    const Status status = train_rows(*platform, options, report);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_EQ(report.rows.size(), 5u);
    const std::string ending = share < 0.5 ? ".c0.33" : ".c0.67";
    for (const Row& row : report.rows) {
      EXPECT_LE(row.value, 1.02 * row.bound) << row.name << ": " << row.value << " s";
      EXPECT_TRUE(row.name.ends_with(ending)) << row.name;
    }
  }
}

TEST(TrainBench, AShareThatLeavesNothingOnNvmeIsInvalid) {
  const auto platform = Platform::simulate(slow(1));
  Report report;
  TrainBenchOptions options = small();
  options.dram_share = 1;
  EXPECT_EQ(train_rows(*platform, options, report).code(), Code::invalid);
}

TEST(TrainBench, InVirtualTimeThePipelineIsItsSlowestLinkWithinTwoPercent) {
  const auto platform = Platform::simulate(slow(1));
  Report report;
  TrainBenchOptions options = small();
  options.state_bytes *= 2;
  const Status status = links_row(*platform, options, report);
  ASSERT_TRUE(status.ok()) << status.to_string();
  const Row row = by_name(report).at("links.split");
  EXPECT_LE(row.value, 1.02 * row.bound) << row.value << " s";
  EXPECT_GE(row.value, row.bound);
}

// Seconds of three steps.
std::vector<double> steps_of(Platform& platform, Model& model) {
  Training training(platform, model, {.forward = 0.3, .backward = 0.5, .micro_batches = 2});
  std::vector<double> seconds;
  for (int step = 0; step < 3; ++step) seconds.push_back(*training.step());
  EXPECT_TRUE(training.finish().ok());
  return seconds;
}

// So a plan is the real step, not a second model of it.
TEST(Training, ADryRunTakesExactlyTheSameTime) {
  SimulationOptions simulation = slow(5);
  ModelOptions options{.unit_elements = 2 * kShardElements, .accumulates = true};
  options.engine.state = StateHome::nvme;
  options.engine.nvme_paths = {"/disk0"};
  options.engine.shard_bytes = 10 * kShardElements;
  options.engine.dram_bytes = 20 * 10 * kShardElements;  // some pinned, some not
  options.engine.threads = 1;
  const auto wet = Platform::simulate(simulation);
  const Pages gradient = Model::allocate_gradient(options).value();
  Model model = Model::open(*wet, options, gradient).value();
  simulation.dry = true;
  const auto dry = Platform::simulate(simulation);
  const Memory nothing =
      dry->device().allocate(Home::host, options.unit_elements * sizeof(std::uint16_t)).value();
  Model other = Model::open_dry(*dry, options, nothing.view()).value();
  const std::vector<double> wanted = steps_of(*wet, model);
  const std::vector<double> seconds = steps_of(*dry, other);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(seconds[i], wanted[i], 1e-4) << i;
  EXPECT_GT(wanted[1], 1.6);
  EXPECT_EQ(other.engine().stats().held.dram(), model.engine().stats().held.dram());
}

TEST(TrainBench, HasARowForEachRatioAskedForAndOneForLinks) {
  const TemporaryFolder folder;
  TrainBenchOptions options;
  options.folder = folder.path();
  options.state_bytes = 6 * kMiB;
  options.shard_bytes = 128 * kKiB;
  options.io_over_forward = {1, 2};
  options.steps = 2;
  options.threads = 1;
  const Result<Report> report = bench_train(options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  const auto rows = by_name(*report);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.at("train.split.io1").samples.size(), 2u);
  EXPECT_GT(rows.at("train.split.io2").bound, 0);
  EXPECT_GT(rows.at("links.split").bound, 0);
  EXPECT_TRUE(folder.empty());
}

}  // namespace
}  // namespace headrace::bench
