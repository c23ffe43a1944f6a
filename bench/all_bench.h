// `bench all`: every benchmark, short, and what follows for a step on this machine
// (bench/verdict.h).
//
// Call it from one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "bench/report.h"
#include "bench/round_watch.h"
#include "io/bytes.h"
#include "io/status.h"

namespace headrace::bench {

struct AllBenchOptions {
  std::filesystem::path folder;            // where files lie while measured, must exist
  double parameters = 7e9;                 // of the model that the verdict is about
  std::uint64_t dram_bytes = 0;            // for its state; 0: half of the machine's memory
  std::chrono::seconds each{8};            // for a benchmark, at most, where it takes a time
  std::uint64_t state_bytes = 384 * kMiB;  // of `bench step`; at 0 it is left out
  bool timeline = false;                   // of its last step, in the report
  RoundWatch watch = {};
};

// About ten seconds: without the step.
AllBenchOptions quick_all_bench();

// The rows of `bench io` (4 MiB blocks), copy (4 MiB), norm and adamw (bf16), and step (split), and
// the verdict as the last note.
Result<Report> bench_all(const AllBenchOptions& options);

}  // namespace headrace::bench
