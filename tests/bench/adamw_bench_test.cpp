#include "bench/adamw_bench.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headrace::bench {
namespace {

AdamWBenchOptions tiny() {
  return {.elements = 8192,
          .window = 2048,
          .threads = 2,
          .rounds = 1,
          .at_most = std::chrono::seconds(1)};
}

std::vector<std::string> names_of(const Report& report) {
  std::vector<std::string> names;
  for (const Row& row : report.rows) {
    names.push_back(row.name);
    EXPECT_EQ(row.unit, "GB/s");
    EXPECT_GT(row.value, 0) << row.name;
    EXPECT_GT(row.bound, 0) << row.name;
    EXPECT_TRUE(std::isfinite(row.ratio) && row.ratio > 0) << row.name;
    EXPECT_GE(row.samples.size(), 1u) << row.name;
  }
  return names;
}

TEST(AdamWBench, HasARowForEachFormatGradientAndTeamBesideItsFloor) {
  const Result<Report> report = bench_adamw(tiny());
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(names_of(*report),
            (std::vector<std::string>{
                "adamw.fp32.1t", "adamw.fp32.2t", "adamw.fp32_fp16.1t", "adamw.fp32_fp16.2t",
                "adamw.fp32_fp32.1t", "adamw.fp32_fp32.2t", "adamw.split.1t", "adamw.split.2t",
                "adamw.split_fp32.1t", "adamw.split_fp32.2t", "adamw.over_loop.1t",
                "adamw.over_three_passes.1t", "adamw.over_loop.2t", "adamw.over_three_passes.2t"}));
}

TEST(AdamWBench, OneThreadHasNoRowsOfTwo) {
  AdamWBenchOptions options = tiny();
  options.threads = 1;
  options.gradients = {ScalarType::bf16};
  options.yardsticks = false;
  const Result<Report> report = bench_adamw(options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(names_of(*report), (std::vector<std::string>{"adamw.fp32.1t", "adamw.split.1t"}));
  EXPECT_FALSE(report->notes.empty());
}

TEST(AdamWBench, ResidentRepeatsAWindowOfTheCache) {
  AdamWBenchOptions options = tiny();
  options.elements = options.window = 2 * kResidentElements;
  options.resident = true;
  const Result<Report> report = bench_adamw(options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(names_of(*report),
            (std::vector<std::string>{"adamw.fp32.l2", "adamw.fp32_fp16.l2", "adamw.fp32_fp32.l2",
                                      "adamw.split.l2", "adamw.split_fp32.l2"}));
}

TEST(AdamWBench, WithoutTimeStillMeasuresOneRound) {
  AdamWBenchOptions options = tiny();
  options.rounds = 1000;  // never there after one
  options.at_most = std::chrono::seconds(0);
  const Result<Report> report = bench_adamw(options);
  ASSERT_TRUE(report.ok());
  for (const Row& row : report->rows) EXPECT_EQ(row.samples.size(), 1u);
  EXPECT_GE(report->notes.size(), report->rows.size());
}

TEST(AdamWBench, OptionsOutOfRangeAreInvalid) {
  for (const auto change :
       {+[](AdamWBenchOptions& o) { o.window = 0; }, +[](AdamWBenchOptions& o) { o.window = 100; },
        +[](AdamWBenchOptions& o) { o.elements = 3000; },
        +[](AdamWBenchOptions& o) { o.elements = 0; }, +[](AdamWBenchOptions& o) { o.rounds = 0; },
        +[](AdamWBenchOptions& o) { o.threads = -1; },
        +[](AdamWBenchOptions& o) { o.gradients.clear(); },
        +[](AdamWBenchOptions& o) { o.resident = true; }}) {
    AdamWBenchOptions options = tiny();
    change(options);
    EXPECT_EQ(bench_adamw(options).status().code(), Code::invalid);
  }
}

}  // namespace
}  // namespace headrace::bench
