#include "bench/copy_bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/copy_paths.h"
#include "tests/bench/rows.h"
#include "tests/support/temporary_folder.h"

namespace headrace::bench {
namespace {

CopyBenchOptions tiny(const std::filesystem::path& folder) {
  CopyBenchOptions options;
  options.folder = folder;
  options.bytes = 2 * kMiB;
  options.sizes = {64 * kKiB, kMiB};
  options.threads = 2;
  options.rounds = 2;
  options.raw_file_bytes = 16 * kMiB;
  options.raw_bytes = 8 * kMiB;
  return options;
}

void expect_rates(const Report& report) {
  for (const Row& row : report.rows) {
    EXPECT_EQ(row.unit, "GB/s");
    EXPECT_GT(row.value, 0) << row.name;
    EXPECT_EQ(row.samples.size(), 2u) << row.name;
    if (row.name == "copy.team") continue;
    EXPECT_TRUE(std::isfinite(row.ratio) && row.ratio > 0) << row.name;
  }
}

TEST(CopyBench, HasARowForEachPathAndSize) {
  const TemporaryFolder folder;
  const Result<Report> report = bench_copy(tiny(folder.path()));
  if (!report.ok() && report.status().code() == Code::unavailable) {
    GTEST_SKIP() << report.status().to_string();
  }
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  expect_rates(*report);
  const auto rows = by_name(*report);
  EXPECT_EQ(rows.size(), 13u);
  for (const char* path : {"up", "down", "both", "host", "nvme_up", "nvme_down"}) {
    for (const char* size : {"64KiB", "1MiB"}) {
      EXPECT_TRUE(rows.contains(std::string("copy.") + path + "." + size)) << path << size;
    }
  }
  EXPECT_EQ(rows.at("copy.team").bound, 0);
}

TEST(CopyBench, WithoutAFolderNothingIsWritten) {
  const Result<Report> report = bench_copy(tiny({}));
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  expect_rates(*report);
  EXPECT_EQ(report->rows.size(), 9u);
}

TEST(CopyBench, WithoutTimeStillMeasuresOneRound) {
  CopyBenchOptions options = tiny({});
  options.rounds = 1000;
  options.at_most = std::chrono::seconds(0);
  const Result<Report> report = bench_copy(options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  for (const Row& row : report->rows) EXPECT_EQ(row.samples.size(), 1u);
}

TEST(CopyBench, OptionsOutOfRangeAreInvalid) {
  for (const auto change :
       {+[](CopyBenchOptions& o) { o.sizes.clear(); },
        +[](CopyBenchOptions& o) { o.sizes.push_back(0); },
        +[](CopyBenchOptions& o) { o.sizes.push_back(1000); },
        +[](CopyBenchOptions& o) { o.sizes.push_back(768 * kKiB); },
        +[](CopyBenchOptions& o) { o.bytes = 0; }, +[](CopyBenchOptions& o) { o.rounds = 0; },
        +[](CopyBenchOptions& o) { o.raw_bytes = 0; },
        +[](CopyBenchOptions& o) { o.threads = -1; }}) {
    CopyBenchOptions options = tiny({});
    change(options);
    const Status status = bench_copy(options).status();
    EXPECT_EQ(status.code(), Code::invalid);
    EXPECT_FALSE(status.to_string().empty());
  }
}

TEST(CopyPaths, VerifyFindsWhatWasNotMoved) {
  const Result<std::unique_ptr<Platform>> platform = Platform::open();
  ASSERT_TRUE(platform.ok());
  auto paths = CopyPaths::open(**platform, kMiB, kMiB, {});
  ASSERT_TRUE(paths.ok()) << paths.status().to_string();
  const Path up{Place::host, Place::device};
  EXPECT_EQ((*paths)->verify(Place::device).code(), Code::corrupt);  // nothing was, as yet
  ASSERT_TRUE((*paths)->move({&up, 1}, 256 * kKiB).ok());
  EXPECT_TRUE((*paths)->verify(Place::device).ok());
}

}  // namespace
}  // namespace headrace::bench
