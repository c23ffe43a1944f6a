// `bench step --train`: whole training steps beside the formula of docs/architecture.md,
//   T_b + max(T_f, T_io (1 - k/K) + T_f / U),
// one micro-batch, U units, K shards all on NVMe, k slots; and a step over throttled links beside
// the slowest link alone. Forward and backward are played (bench/training.h); the disk is held to a
// set rate. T_f, T_b, T_update and T_io are each measured alone, in the same run. Clipping is on.
// Call it from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "bench/report.h"
#include "bench/round_watch.h"
#include "io/bytes.h"
#include "io/platform.h"
#include "io/status.h"
#include "optim_cpu/state_format.h"

namespace headrace::bench {

struct TrainBenchOptions {
  std::filesystem::path folder;  // where the state lies; must exist
  StateFormat format = StateFormat::split;
  std::vector<double> io_over_forward{0.3, 1, 3};  // T_io / T_f, a row for each
  std::uint64_t state_bytes = 256 * kMiB;
  std::uint64_t shard_bytes = 8 * kMiB;                 // two of them a unit
  std::uint64_t disk_bytes_per_second = 1'500'000'000;  // one server for reads and writes
  std::uint64_t link_bytes_per_second = 1'000'000'000;  // of the links row, each way
  double dram_share = 0;  // of the state: as much is pinned in DRAM, 0 to 1
  unsigned units = 24;
  int slots = 3;
  int threads = 0;              // of the optimizer's team; 0: all
  std::filesystem::path trace;  // a Chrome trace of all steps goes there; empty: none
  bool timeline = false;        // of the last step of each row, in the report
  double max_norm = 1;          // clipping; 0: none
  std::size_t steps = 7;
  RoundWatch watch = {};
};

// About ten seconds.
TrainBenchOptions quick_train_bench();

// Rows train.F.ioX and links.F in seconds a step: F the format, X the ratio T_io / T_f, T_io that
// of all state as if it were on NVMe; with a share S in DRAM train.F.ioX.cS.
Result<Report> bench_train(const TrainBenchOptions& options);

// The same on platforms of the caller's, in their time: simulated ones, or a disk of another kind.
// The one for train_rows has a disk of the rate wanted, the one for links_row streams of it; both
// a trace when timelines are wanted.
Status train_rows(Platform& platform, const TrainBenchOptions& options, Report& report);
Status links_row(Platform& platform, const TrainBenchOptions& options, Report& report);

}  // namespace headrace::bench
