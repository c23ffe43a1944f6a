// `bench adamw`: the update of the optimizer beside the floor of its own memory streams, and beside
// what others do (bench/adam_yardstick.h).
//
// Timed as bench/clean_rounds.h says; a sample is one window, walking through arrays that fit no
// cache. Call it from one thread; takes 22 bytes of memory per element.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "bench/report.h"
#include "bench/round_watch.h"
#include "io/status.h"
#include "optim_cpu/dtype.h"

namespace headrace::bench {

struct AdamWBenchOptions {
  std::size_t elements = std::size_t{32} << 20;  // of every array, a whole number of windows
  std::size_t window = std::size_t{4} << 20;     // elements of a sample, a multiple of 256
  std::vector<ScalarType> gradients{ScalarType::bf16, ScalarType::fp16, ScalarType::fp32};
  bool yardsticks = true;
  int threads = 0;          // the rows beside those of one thread; 0: all that this process may use
  bool resident = false;    // repeats kResidentElements instead, which stay in the L2 cache
  std::size_t rounds = 60;  // clean ones wanted for every row
  std::chrono::seconds at_most{40};  // ends earlier when they are there
  RoundWatch watch = {};
};

// A whole number of them is a window when `resident`.
inline constexpr std::size_t kResidentElements = 8192;

// About ten seconds.
AdamWBenchOptions quick_adamw_bench();

// Rows in GB/s of the update's memory traffic, for each format F, gradient G and threads N:
// adamw.F.Nt of gradients in bf16, adamw.F_G.Nt of others (fp16, with parameters of fp16: the
// format fp32 only). adamw.over_loop.Nt and adamw.over_three_passes.Nt are the speed of adamw.fp32
// over that of the yardsticks, for the same elements. `resident`: adamw.F.l2, adamw.F_G.l2 on one
// thread. `invalid` for options out of range, `out_of_memory` without room for the arrays.
Result<Report> bench_adamw(const AdamWBenchOptions& options);

}  // namespace headrace::bench
