// Every benchmark ends when its watch says so, and leaves nothing behind.
#include "bench/round_watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bench/adamw_bench.h"
#include "bench/copy_bench.h"
#include "bench/io_bench.h"
#include "bench/norm_bench.h"
#include "bench/overhead_bench.h"
#include "bench/train_bench.h"
#include "tests/bench/tiny_step.h"
#include "tests/support/temporary_folder.h"

namespace headrace::bench {
namespace {

// Lets so many rounds pass.
struct Watched {
  explicit Watched(std::size_t passing) : left(passing) {}
  RoundWatch watch() {
    return [this](const std::string& where) {
      seen.push_back(where);
      return left-- > 0 ? Status() : Status(Code::cancelled, "enough at " + where);
    };
  }
  std::size_t left;
  std::vector<std::string> seen;
};

void expect_ended(const Result<Report>& report, const Watched& watched, const std::string& where) {
  if (!report.ok() && report.status().code() == Code::unavailable)
    GTEST_SKIP() << report.status().to_string();
  EXPECT_EQ(report.status().code(), Code::cancelled) << report.status().to_string();
  ASSERT_FALSE(watched.seen.empty());
  EXPECT_EQ(watched.seen.back(), where);
  EXPECT_NE(report.status().to_string().find("enough at " + where), std::string::npos);
}

TEST(RoundWatch, EndsAStepAmongItsSavesAndLeavesNoFile) {
  const TemporaryFolder folder;
  StepBenchOptions options = tiny_step(folder);
  Watched watched(3);  // both steps, and one save
  options.watch = watched.watch();
  expect_ended(bench_step(options), watched, "save.fp32, round 2");
  EXPECT_EQ(watched.seen.front(), "step.fp32, round 1");
  EXPECT_TRUE(folder.empty());
}

TEST(RoundWatch, EndsTrainingWithAnUpdateUnderWay) {
  const TemporaryFolder folder;
  TrainBenchOptions options;
  options.folder = folder.path();
  options.state_bytes = 12 * kMiB;
  options.shard_bytes = 256 * kKiB;
  options.steps = 3;
  Watched watched(4);
  options.watch = watched.watch();
  expect_ended(bench_train(options), watched, "train.split.io1, round 2");
  EXPECT_TRUE(folder.empty());
}

TEST(RoundWatch, EndsIoAndCopies) {
  const TemporaryFolder folder;
  IoBenchOptions io = quick_io_bench();
  io.folders = {folder.path()};
  io.file_bytes = io.sample_bytes = 16 * kMiB;
  io.blocks = {kMiB};
  io.depths = {4};
  io.rounds = 3;
  Watched io_watched(1);
  io.watch = io_watched.watch();
  expect_ended(bench_io(io), io_watched, "io.read.1MiBx4, round 2");

  CopyBenchOptions copy;
  copy.folder = folder.path();
  copy.bytes = 4 * kMiB;
  copy.sizes = {kMiB};
  copy.raw_file_bytes = 16 * kMiB;
  copy.raw_bytes = 4 * kMiB;
  Watched copy_watched(1);
  copy.watch = copy_watched.watch();
  expect_ended(bench_copy(copy), copy_watched, "copies, round 2");
  EXPECT_TRUE(folder.empty());
}

TEST(RoundWatch, EndsKernelsAndOverhead) {
  AdamWBenchOptions adamw;
  adamw.elements = adamw.window = 64 * 1024;
  Watched adamw_watched(1);
  adamw.watch = adamw_watched.watch();
  expect_ended(bench_adamw(adamw), adamw_watched, "adamw.fp32.1t, round 2");

  NormBenchOptions norm;
  norm.bytes = norm.window = kMiB;
  Watched norm_watched(1);
  norm.watch = norm_watched.watch();
  expect_ended(bench_norm(norm), norm_watched, "norm.bf16.1t, round 2");

  OverheadBenchOptions overhead;
  overhead.shards = {20};
  Watched overhead_watched(1);
  overhead.watch = overhead_watched.watch();
  expect_ended(bench_overhead(overhead), overhead_watched, "overhead.dram.20, round 2");
}

TEST(RoundWatch, AFolderWithoutEnoughSpaceIsRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const auto refuse = [&folder](const Status& status) {
    EXPECT_EQ(status.code(), Code::out_of_space) << status.to_string();
    EXPECT_NE(status.to_string().find("free some space"), std::string::npos) << status.to_string();
    EXPECT_TRUE(folder.empty());
  };
  StepBenchOptions step = tiny_step(folder);
  step.raw_file_bytes = std::uint64_t{1} << 55;
  refuse(bench_step(step).status());
  TrainBenchOptions train;
  train.folder = folder.path();
  train.state_bytes = std::uint64_t{1} << 55;
  refuse(bench_train(train).status());
  CopyBenchOptions copy;
  copy.folder = folder.path();
  copy.raw_file_bytes = std::uint64_t{1} << 55;
  refuse(bench_copy(copy).status());
}

TEST(RoundWatch, AShareOfTheStateIsPinnedBesideTheSlots) {
  const TemporaryFolder folder;
  StepBenchOptions options = tiny_step(folder);
  options.shard_bytes = 0;
  options.dram_share = 0.5;
  options.formats = {StateFormat::split};
  const Result<Report> report = bench_step(options);
  if (!report.ok() && report.status().code() == Code::unavailable)
    GTEST_SKIP() << report.status().to_string();
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->rows.at(2).name, "bytes.split");
  EXPECT_EQ(report->rows.at(2).value, 20);
  bool told = false;
  for (const std::string& note : report->notes)
    told |= note.find(format_bytes(5 * kMiB) + " of DRAM") != std::string::npos;
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace headrace::bench
