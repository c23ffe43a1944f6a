#include "bench/norm_bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "bench/read_floor.h"
#include "optim_cpu/team.h"
#include "tests/bench/rows.h"

namespace headrace::bench {
namespace {

NormBenchOptions tiny() {
  return {.bytes = kMiB,
          .window = 512 * kKiB,
          .threads = 2,
          .rounds = 1,
          .at_most = std::chrono::seconds(0)};
}

void expect_rates(const Report& report) {
  for (const Row& row : report.rows) {
    EXPECT_EQ(row.unit, "GB/s");
    EXPECT_GT(row.value, 0) << row.name;
    EXPECT_GT(row.bound, 0) << row.name;
    EXPECT_TRUE(std::isfinite(row.ratio) && row.ratio > 0) << row.name;
  }
}

TEST(NormBench, HasARowForEachTypeAndTeamBesideItsFloor) {
  const Result<Report> report = bench_norm(tiny());
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  expect_rates(*report);
  const auto rows = by_name(*report);
  EXPECT_EQ(rows.size(), 6u);
  for (const char* name : {"norm.bf16.1t", "norm.bf16.2t", "norm.fp16.1t", "norm.fp16.2t",
                           "norm.fp32.1t", "norm.fp32.2t"}) {
    EXPECT_TRUE(rows.contains(name)) << name;
  }
}

TEST(NormBench, ResidentRowsAreOfOneThread) {
  NormBenchOptions options = tiny();
  options.resident = true;
  options.types = {ScalarType::bf16};
  const Result<Report> report = bench_norm(options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  expect_rates(*report);
  ASSERT_EQ(report->rows.size(), 1u);
  EXPECT_EQ(report->rows[0].name, "norm.bf16.l2");
}

TEST(NormBench, OptionsOutOfRangeAreInvalid) {
  for (const auto change :
       {+[](NormBenchOptions& o) { o.window = 0; }, +[](NormBenchOptions& o) { o.window = 100; },
        +[](NormBenchOptions& o) { o.bytes = 700 * kKiB; },
        +[](NormBenchOptions& o) { o.bytes = 0; }, +[](NormBenchOptions& o) { o.rounds = 0; },
        +[](NormBenchOptions& o) { o.types.clear(); },
        +[](NormBenchOptions& o) { o.threads = -1; }}) {
    NormBenchOptions options = tiny();
    change(options);
    const Status status = bench_norm(options).status();
    EXPECT_EQ(status.code(), Code::invalid);
    EXPECT_FALSE(status.to_string().empty());
  }
}

TEST(ReadFloor, ReadsEveryWordForAnyTeam) {
  struct alignas(64) Line {
    std::uint64_t words[8];
  };
  std::vector<Line> lines(5 * 8);
  std::uint64_t random = 1, wanted = 0;
  for (Line& line : lines) {
    for (std::uint64_t& word : line.words) {
      word = random = random * 6364136223846793005U + 1442695040888963407U;
      wanted ^= word;
    }
  }
  for (const int threads : {1, 2, 7}) {
    EXPECT_EQ(read_floor(std::as_bytes(std::span(lines)), 512, {threads}), wanted);
  }
}

}  // namespace
}  // namespace headrace::bench
