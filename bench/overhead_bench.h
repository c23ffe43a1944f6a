// `bench overhead`: what the runtime itself costs: leases, gradients, queuing and completing the
// step of a model of many shards of the smallest size, without the bytes.
//
// Bodies of tasks are not called and memory is addresses that nothing backs, so what is left are
// the calls, the events, the lanes, the queue, and the wakes from one thread to the next. Three
// ways: `dram`, on real threads, with the state updated in place; `nvme`, on real threads, with
// every shard read into a slot, summed and written by an engine whose transfers are over at once;
// `simulated`, the same on the simulated platform, in one thread. Call it from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/report.h"
#include "bench/round_watch.h"
#include "io/status.h"

namespace headrace::bench {

struct OverheadBenchOptions {
  std::vector<std::size_t> shards{1'000, 10'000, 100'000};
  unsigned units = 20;  // what is leased; each number of shards is rounded up to a multiple
  int slots = 4;
  std::size_t rounds = 5;  // of each row
  // Calls of operator new so far, by a program that counts them; null: not reported.
  std::function<std::uint64_t()> allocations;
  RoundWatch watch = {};
};

// About ten seconds.
OverheadBenchOptions quick_overhead_bench();

// For each way W and number of shards N the row overhead.W.N, microseconds per shard and step
// beside kOverheadBound, and overhead.W.N.cpu, microseconds of CPU of all threads; with
// `allocations` overhead.W.N.allocations, per shard and step; and overhead.W.linear, the CPU time
// per shard of the most shards beside that of the fewest. `invalid` for options out of range.
Result<Report> bench_overhead(const OverheadBenchOptions& options);

constexpr double kOverheadBound = 30;  // microseconds

}  // namespace headrace::bench
