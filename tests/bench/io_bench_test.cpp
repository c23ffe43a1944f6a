#include "bench/io_bench.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "tests/bench/rows.h"
#include "tests/support/temporary_folder.h"

namespace headrace::bench {
namespace {

IoBenchOptions tiny(const TemporaryFolder& folder) {
  IoBenchOptions options;
  options.folders = {folder.path()};
  options.blocks = {64 * kKiB};
  options.depths = {4};
  options.file_bytes = 40 * 64 * kKiB;
  options.sample_bytes = 100 * 64 * kKiB;
  options.rounds = 2;
  return options;
}

void expect_sane(const Row& row, std::size_t rounds) {
  EXPECT_EQ(row.unit, "GB/s");
  EXPECT_GT(row.value, 0) << row.name;
  EXPECT_GT(row.bound, 0) << row.name;
  EXPECT_TRUE(std::isfinite(row.ratio) && row.ratio > 0) << row.name;
  EXPECT_GT(row.cpu, 0) << row.name;
  EXPECT_EQ(row.samples.size(), rounds) << row.name;
}

#define BENCH_OR_SKIP(report, options)                             \
  const Result<Report> report = bench_io(options);                 \
  if (!report.ok() && report.status().code() == Code::unavailable) \
    GTEST_SKIP() << report.status().to_string();                   \
  ASSERT_TRUE(report.ok()) << report.status().to_string()

TEST(IoBench, HasARowForEachDirectionBlockAndDepthAndLeavesNothing) {
  const TemporaryFolder folder;
  IoBenchOptions options = tiny(folder);
  options.blocks = {4 * kKiB, 256 * kKiB};
  options.depths = {1, 3};
  options.file_bytes = 512 * kKiB;
  options.sample_bytes = 256 * kKiB;
  BENCH_OR_SKIP(report, options);
  const auto rows = by_name(*report);
  EXPECT_EQ(rows.size(), 12u);
  for (const char* direction : {"read", "write", "mixed"}) {
    for (const char* shape : {"4KiBx1", "4KiBx3", "256KiBx1", "256KiBx3"}) {
      const auto row = rows.find(std::string("io.") + direction + "." + shape);
      ASSERT_NE(row, rows.end()) << direction << shape;
      expect_sane(row->second, 2);
    }
  }
  EXPECT_TRUE(folder.empty());
}

TEST(IoBench, WithoutDepthsThereAre32MiBInFlight) {
  const TemporaryFolder folder;
  IoBenchOptions options = tiny(folder);
  options.directions = {Direction::read};
  options.blocks = {4 * kMiB};
  options.depths = {};
  options.file_bytes = 8 * kMiB;
  options.rounds = 1;
  BENCH_OR_SKIP(report, options);
  ASSERT_EQ(report->rows.size(), 1u);
  EXPECT_EQ(report->rows[0].name, "io.read.4MiBx8");
}

TEST(IoBench, SeveralFilesAndFoldersShareADrive) {
  const TemporaryFolder first;
  const TemporaryFolder second;
  IoBenchOptions options = tiny(first);
  options.folders.push_back(second.path());
  options.files = 3;
  BENCH_OR_SKIP(report, options);
  for (const Row& row : report->rows) expect_sane(row, 2);
  EXPECT_EQ(report->rows.size(), 3u);
}

TEST(IoBench, WithThreadsInsteadOfIoUring) {
  const TemporaryFolder folder;
  IoBenchOptions options = tiny(folder);
  options.backend = IoBenchBackend::posix;
  options.bound = false;
  BENCH_OR_SKIP(report, options);
  ASSERT_EQ(report->rows.size(), 3u);
  EXPECT_EQ(report->rows[1].name, "io.write.64KiBx4.posix");
  for (const Row& row : report->rows) {
    EXPECT_GT(row.value, 0);
    EXPECT_EQ(row.bound, 0);
  }
}

TEST(IoBench, RunsForATimeWhenAsked) {
  const TemporaryFolder folder;
  IoBenchOptions options = tiny(folder);
  options.seconds = 0.02;
  options.rounds = 2;  // the loop goes first in the second one
  BENCH_OR_SKIP(report, options);
  for (const Row& row : report->rows) expect_sane(row, 2);
}

TEST(IoBench, WithoutTimeStillMeasuresThreeRounds) {
  const TemporaryFolder folder;
  IoBenchOptions options = tiny(folder);
  options.rounds = 0;
  options.at_most = std::chrono::seconds(0);
  BENCH_OR_SKIP(report, options);
  for (const Row& row : report->rows) EXPECT_EQ(row.samples.size(), 3u);
}

TEST(IoBench, WhatIsNotDirectIsRefusedUnlessBufferedWasAskedFor) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const TemporaryFolder folder("/dev/shm");
  IoBenchOptions options = tiny(folder);
  options.backend = IoBenchBackend::posix;  // everywhere
  const Status refused = bench_io(options).status();
  EXPECT_EQ(refused.code(), Code::unavailable);
  EXPECT_NE(refused.message().find("direct"), std::string::npos) << refused.to_string();
  options.buffered = true;
  options.bound = false;
  const Result<Report> report = bench_io(options);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->rows[0].name, "io.read.64KiBx4.buffered.posix");
}

TEST(IoBench, FilesThatDoNotFitAreRefusedWithBothSizes) {
  const TemporaryFolder folder;
  IoBenchOptions options = tiny(folder);
  options.file_bytes = std::uint64_t{1} << 45;
  const Status refused = bench_io(options).status();
  EXPECT_EQ(refused.code(), Code::out_of_space) << refused.to_string();
  EXPECT_NE(refused.message().find("106 TB"), std::string::npos) << refused.to_string();
  EXPECT_NE(refused.message().find("free"), std::string::npos) << refused.to_string();
}

TEST(IoBench, BuffersThatDoNotFitAreRefused) {
  const TemporaryFolder folder;
  IoBenchOptions options = tiny(folder);
  options.blocks = {kGiB};
  options.depths = {1024};
  options.file_bytes = 2 * kGiB;
  options.bound = false;
  const Status refused = bench_io(options).status();
  if (refused.code() == Code::out_of_space) GTEST_SKIP() << refused.to_string();
  EXPECT_EQ(refused.code(), Code::out_of_memory) << refused.to_string();
}

TEST(IoBench, OptionsOutOfRangeAreInvalid) {
  const TemporaryFolder folder;
  for (const auto change :
       {+[](IoBenchOptions& o) { o.folders = {}; }, +[](IoBenchOptions& o) { o.directions = {}; },
        +[](IoBenchOptions& o) { o.blocks = {}; }, +[](IoBenchOptions& o) { o.blocks = {0}; },
        +[](IoBenchOptions& o) { o.blocks = {1000}; },
        +[](IoBenchOptions& o) {
          o.depths = {4, 0};
        },
        +[](IoBenchOptions& o) { o.depths = {2000}; }, +[](IoBenchOptions& o) { o.files = 0; },
        +[](IoBenchOptions& o) { o.file_bytes = 100000; },
        +[](IoBenchOptions& o) { o.sample_bytes = 0; }, +[](IoBenchOptions& o) { o.seconds = -1; },
        +[](IoBenchOptions& o) { o.seconds = std::nan(""); },
        +[](IoBenchOptions& o) { o.folders = {"/nonexistent/headrace"}; }}) {
    IoBenchOptions options = tiny(folder);
    change(options);
    const Status refused = bench_io(options).status();
    EXPECT_EQ(refused.code(), Code::invalid) << refused.to_string();
    EXPECT_FALSE(refused.message().empty());
  }
}

}  // namespace
}  // namespace headrace::bench
