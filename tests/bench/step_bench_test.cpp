#include "bench/step_bench.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "bench/model.h"
#include "tests/bench/rows.h"
#include "tests/bench/tiny_step.h"
#include "tests/support/temporary_folder.h"

namespace headrace::bench {
namespace {

TEST(StepBench, BoundIsTheSlowestOfReadingWritingAndBoth) {
  const RawRates rates{.read = 2e9, .write = 1e9, .mixed = 1.5e9};
  EXPECT_DOUBLE_EQ(least_seconds(rates, 12'000'000'000, 0), 8);                       // (r + w) / D
  EXPECT_DOUBLE_EQ(least_seconds(rates, 1'000'000'000, 4'000'000'000), 4);            // w / W
  EXPECT_DOUBLE_EQ(least_seconds({1e9, 9e9, 9e9}, 5'000'000'000, 1'000'000'000), 5);  // r / R
  EXPECT_DOUBLE_EQ(least_seconds(rates, 0, 0), 0);
}

TEST(StepBench, CountsExactlyTheBytesThatEachFormatNeeds) {
  const TemporaryFolder folder;
  const Result<Report> report = bench_step(tiny_step(folder));
  if (!report.ok() && report.status().code() == Code::unavailable) {
    GTEST_SKIP() << report.status().to_string();
  }
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  const auto rows = by_name(*report);
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows.at("bytes.fp32").value, 24);
  EXPECT_EQ(rows.at("bytes.split").value, 20);
  for (const char* name : {"step.fp32", "step.split", "save.fp32", "save.split"}) {
    EXPECT_EQ(rows.at(name).unit, "s");
    EXPECT_EQ(rows.at(name).samples.size(), 2u);
    EXPECT_GT(rows.at(name).bound, 0);
  }
  EXPECT_GT(rows.at("gradients.split").value, 0);
  EXPECT_EQ(rows.at("gradients.split").bound, 0);
  EXPECT_GT(rows.at("memory.fp32").bound, rows.at("memory.fp32.needed").bound);
  EXPECT_TRUE(folder.empty());
}

TEST(StepBench, SavesAndTheDiskBesideAnUpdateAreMeasuredWhereTheyMatter) {
  const TemporaryFolder folder;
  StepBenchOptions options = tiny_step(folder);
  options.formats = {StateFormat::split};
  options.saves = 0;
  options.dram_share = 0.5;
  const Result<Report> report = bench_step(options);
  if (!report.ok() && report.status().code() == Code::unavailable) {
    GTEST_SKIP() << report.status().to_string();
  }
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  const auto rows = by_name(*report);
  EXPECT_FALSE(rows.contains("save.split"));
  const Row& beside = rows.at("disk.beside_update");
  EXPECT_EQ(beside.unit, "GB/s");
  EXPECT_GT(beside.value, 0);
  EXPECT_GT(beside.bound, 0);
  EXPECT_EQ(beside.samples.size(), 5u);
}

// The state hash after some of the steps that are measured.
std::uint64_t hash_after_steps(Platform& platform, const EngineOptions& engine, double max_norm) {
  const ModelOptions options{.engine = engine,
                             .unit_elements = unit_elements(3 * kMiB, 5, engine.format),
                             .units = 5,
                             .max_norm = max_norm};
  const Result<Pages> gradient = Model::allocate_gradient(options);
  Result<Model> model = Model::open(platform, options, *gradient);
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(model->timed_step().ok());
  const Result<std::uint64_t> hash = model->engine().state_hash();
  EXPECT_TRUE(hash.ok()) << hash.status().to_string();
  return *hash;
}

TEST(StepBench, StepsOnNvmeAreThoseInDramBitForBit) {
  const TemporaryFolder folder;
  const auto platform = *Platform::open();
  for (const StateFormat format : {StateFormat::fp32, StateFormat::split}) {
    const EngineOptions in_dram{.format = format, .state = StateHome::dram, .threads = 1};
    const EngineOptions on_nvme{.format = format,
                                .state = StateHome::nvme,
                                .dram_bytes = kMiB,
                                .nvme_paths = {folder.path()},
                                .shard_bytes = 128 * kKiB,
                                .threads = 1};
    const std::uint64_t wanted = hash_after_steps(*platform, in_dram, 1);
    EXPECT_EQ(hash_after_steps(*platform, on_nvme, 1), wanted);
    EXPECT_NE(hash_after_steps(*platform, on_nvme, 0), wanted);  // so clipping does something
  }
}

}  // namespace
}  // namespace headrace::bench
