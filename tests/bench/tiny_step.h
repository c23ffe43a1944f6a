// A `bench step` of a moment.
#pragma once

#include "bench/step_bench.h"
#include "tests/support/temporary_folder.h"

namespace headrace::bench {

inline StepBenchOptions tiny_step(const TemporaryFolder& folder) {
  StepBenchOptions options;
  options.folder = folder.path();
  options.state_bytes = 6 * kMiB;
  options.dram_bytes = 2 * kMiB;
  options.shard_bytes = 256 * kKiB;
  options.rounds = 2;
  options.threads = 1;
  options.raw_file_bytes = 16 * kMiB;
  options.raw_bytes = 8 * kMiB;
  return options;
}

}  // namespace headrace::bench
