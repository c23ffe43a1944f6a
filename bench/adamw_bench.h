// `bench adamw`: the update of the optimizer beside the floor of its own memory streams.
//
// All variants (update and floor, fp32 and split, one thread and two) take turns in one process,
// the first one rotating from round to round; each sample is one window, walking through arrays
// that fit no cache. A sample is clean when its threads had their cores for 97.5 % of the time, a
// round of a row when both of its samples are. Call it from one thread; takes 18 bytes of memory
// per element.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "bench/report.h"
#include "io/status.h"

namespace headrace::bench {

struct AdamWBenchOptions {
  std::size_t elements = std::size_t{32} << 20;  // of every array, a whole number of windows
  std::size_t window = std::size_t{4} << 20;     // elements of a sample, a multiple of 256
  std::size_t rounds = 60;                       // clean ones wanted for every row
  std::chrono::seconds at_most{40};              // ends earlier when they are there
};

// About ten seconds.
AdamWBenchOptions quick_adamw_bench();

// Rows adamw.fp32.1t, .2t, adamw.split.1t, .2t in GB/s of memory traffic; those of two threads only
// where the process may run on two cores. A row without a clean round is made of all its rounds,
// and a note says so. `invalid` for options out of range, `out_of_memory` without room for the
// arrays.
Result<Report> bench_adamw(const AdamWBenchOptions& options);

}  // namespace headrace::bench
