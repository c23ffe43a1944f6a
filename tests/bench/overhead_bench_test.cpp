#include "bench/overhead_bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/bench/counted_new.h"
#include "tests/bench/rows.h"

namespace headrace::bench {
namespace {

OverheadBenchOptions tiny() {
  OverheadBenchOptions options;
  options.shards = {2, 6};
  options.units = 2;
  options.rounds = 1;
  return options;
}

TEST(OverheadBench, HasARowForEachWayAndNumberOfShards) {
  const Result<Report> report = bench_overhead(tiny());
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  std::map<std::string, Row> rows = by_name(*report);
  EXPECT_EQ(rows.size(), 3U * 5U);
  for (const char* way : {"dram", "nvme", "simulated"}) {
    for (const char* rest : {"2", "2.cpu", "6", "6.cpu", "linear"}) {
      const Row& row = rows[std::string("overhead.") + way + "." + rest];
      EXPECT_EQ(row.unit, "us") << way << " " << rest;
      EXPECT_GT(row.value, 0) << row.name;
      EXPECT_TRUE(std::isfinite(row.ratio)) << row.name;
    }
  }
  EXPECT_EQ(rows["overhead.nvme.6"].bound, kOverheadBound);
}

TEST(OverheadBench, AllocationsAreReportedWhereTheyAreCounted) {
  OverheadBenchOptions options = tiny();
  std::uint64_t calls = 0;
  options.allocations = [&calls] { return calls += 12; };  // between two calls of it
  const Result<Report> report = bench_overhead(options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  std::map<std::string, Row> rows = by_name(*report);
  EXPECT_DOUBLE_EQ(rows["overhead.dram.6.allocations"].value, 12 / 9996.0);
}

// After warm-up only what events and tasks need, and as many for a shard whatever their number.
TEST(OverheadBench, AllocationsOfAShardAreFewAndDoNotGrowWithTheirNumber) {
  if (allocations_made() == 0) GTEST_SKIP() << "not counted under sanitizers";
  OverheadBenchOptions options;
  options.shards = {200, 4000};
  options.rounds = 1;
  options.allocations = allocations_made;
  const Result<Report> report = bench_overhead(options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  std::map<std::string, Row> rows = by_name(*report);
  for (const char* way : {"dram", "nvme", "simulated"}) {
    const std::string name = std::string("overhead.") + way;
    const double few = rows[name + ".200.allocations"].value;
    const double many = rows[name + ".4000.allocations"].value;
    std::printf("%s: %.2f and %.2f allocations a shard and step\n", way, few, many);
    EXPECT_GT(few, 0) << way;
    EXPECT_LE(many, few + 1) << way;
    EXPECT_LE(many, 50) << way;
  }
}

TEST(OverheadBench, OptionsOutOfRangeAreInvalid) {
  for (const auto change : {+[](OverheadBenchOptions& o) { o.shards.clear(); },
                            +[](OverheadBenchOptions& o) { o.shards = {0}; },
                            +[](OverheadBenchOptions& o) { o.shards = {20'000'000}; },
                            +[](OverheadBenchOptions& o) {
                              o.shards = {6, 2};
                            },
                            +[](OverheadBenchOptions& o) { o.units = 0; },
                            +[](OverheadBenchOptions& o) { o.rounds = 0; },
                            +[](OverheadBenchOptions& o) { o.slots = 1; }}) {
    OverheadBenchOptions options = tiny();
    change(options);
    EXPECT_EQ(bench_overhead(options).status().code(), Code::invalid);
  }
}

}  // namespace
}  // namespace headrace::bench
