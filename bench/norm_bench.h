// `bench norm`: the sums of squares of gradients and the search for non-finite ones beside the
// floor of the same reads (bench/read_floor.h), for gradients of each type.
//
// Timed as bench/clean_rounds.h says; a sample is one window, walking through an array that fits no
// cache. Call it from one thread; takes `bytes` of memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/report.h"
#include "bench/round_watch.h"
#include "io/bytes.h"
#include "io/status.h"
#include "optim_cpu/dtype.h"

namespace headrace::bench {

struct NormBenchOptions {
  std::uint64_t bytes = 512 * kMiB;  // of gradients, a whole number of windows
  std::uint64_t window = 32 * kMiB;  // of a sample, a multiple of 256 KiB
  std::vector<ScalarType> types{ScalarType::bf16, ScalarType::fp16, ScalarType::fp32};
  int threads = 0;          // the rows beside those of one thread; 0: all that this process may use
  bool resident = false;    // repeats 256 KiB instead, which stay in the L2 cache, on one thread
  std::size_t rounds = 60;  // clean ones wanted for every row
  std::chrono::seconds at_most{30};  // ends earlier when they are there
  RoundWatch watch = {};
};

// About five seconds.
NormBenchOptions quick_norm_bench();

// Rows norm.T.1t, norm.T.Nt in GB/s of gradients, N the threads; `resident`: rows norm.T.l2. What
// was timed gave the same bits as plain scalar code, else the result is `corrupt`. `invalid` for
// options out of range, `out_of_memory` without room for the array.
Result<Report> bench_norm(const NormBenchOptions& options);

}  // namespace headrace::bench
