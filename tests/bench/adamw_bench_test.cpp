#include "bench/adamw_bench.h"

#include <gtest/gtest.h>

#include "optim_cpu/team.h"

namespace headrace::bench {
namespace {

AdamWBenchOptions tiny() {
  return {.elements = 8192, .window = 2048, .rounds = 1, .at_most = std::chrono::seconds(1)};
}

TEST(AdamWBench, HasARowForEachFormatAndTeamBesideItsFloor) {
  const Result<Report> report = bench_adamw(tiny());
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  std::vector<std::string> names;
  for (const Row& row : report->rows) {
    names.push_back(row.name);
    EXPECT_EQ(row.unit, "GB/s");
    EXPECT_GT(row.value, 0);
    EXPECT_GT(row.bound, 0);
    EXPECT_GT(row.ratio, 0);
    EXPECT_GE(row.samples.size(), 1u);
  }
  if (affinity_threads() == 1) {
    EXPECT_EQ(names, (std::vector<std::string>{"adamw.fp32.1t", "adamw.split.1t"}));
    EXPECT_FALSE(report->notes.empty());
  } else {
    EXPECT_EQ(names, (std::vector<std::string>{"adamw.fp32.1t", "adamw.fp32.2t", "adamw.split.1t",
                                               "adamw.split.2t"}));
  }
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
        +[](AdamWBenchOptions& o) { o.elements = 0; },
        +[](AdamWBenchOptions& o) { o.rounds = 0; }}) {
    AdamWBenchOptions options = tiny();
    change(options);
    EXPECT_EQ(bench_adamw(options).status().code(), Code::invalid);
  }
}

}  // namespace
}  // namespace headrace::bench
