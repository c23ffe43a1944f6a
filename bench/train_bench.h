// `bench step --train`: whole training steps beside the formula of docs/architecture.md,
//   T_b + max(T_f, T_io (1 - k/K) + T_f / U),
// one micro-batch, U units, K shards all on NVMe, k slots. Forward and backward are played by a
// stream of the host device that takes a set time and no core; the disk is held to a set rate. T_f,
// T_b and T_io are each measured alone, in the same run. Clipping is on. Call it from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "bench/report.h"
#include "io/bytes.h"
#include "io/status.h"
#include "optim_cpu/state_format.h"

namespace headrace::bench {

struct TrainBenchOptions {
  std::filesystem::path folder;  // where the state lies; must exist
  StateFormat format = StateFormat::split;
  std::vector<double> io_over_forward{0.3, 1, 3};  // T_io / T_f, a row for each
  std::uint64_t state_bytes = 384 * kMiB;
  std::uint64_t shard_bytes = 8 * kMiB;
  std::uint64_t disk_bytes_per_second = 1'500'000'000;  // one server for reads and writes
  unsigned units = 24;
  int slots = 3;
  int threads = 0;      // of the optimizer's team; 0: all
  double max_norm = 1;  // clipping; 0: none
  std::size_t steps = 7;
};

// About ten seconds.
TrainBenchOptions quick_train_bench();

// Rows train.F.X in seconds a step: F the format, X the ratio T_io / T_f.
Result<Report> bench_train(const TrainBenchOptions& options);

// The parts of a training step, each measured alone, in seconds.
struct StepParts {
  double forward = 0;
  double backward = 0;
  double io = 0;
  double slots_of_shards = 0;  // k / K, at most 1
  unsigned units = 1;
};
double best_step_seconds(const StepParts& parts);

}  // namespace headrace::bench
