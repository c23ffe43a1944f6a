// How the memory-bound kernels are timed: all variants take turns in one process, the first one
// rotating from round to round. A sample is clean when its threads had their cores for 97.5 % of
// the time, a round of a row when both of its samples are. Call it from one thread, with nothing
// else running in the process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/round_watch.h"

namespace headrace::bench {

// What is timed. One call is one sample; it counts up `turn`, over all variants, so that samples
// can walk through arrays which fit no cache.
struct Variant {
  int threads = 1;
  std::uint64_t bytes = 0;  // what the rate of a sample counts
  std::function<void(std::size_t turn)> run;
};

// A row: two variants by their index, compared within each round.
struct Pairing {
  std::string name;
  std::size_t value = 0;
  std::size_t bound = 0;
};

struct Contest {
  std::vector<Variant> variants;
  std::vector<Pairing> rows;

  std::size_t add(Variant variant);  // its index
};

struct CleanRoundsOptions {
  std::size_t rounds = 60;                   // clean ones wanted for every row, at least one
  std::chrono::milliseconds at_most{40000};  // ends earlier when they are there
  RoundWatch watch = {};
};

// One round to warm up, then at least one; fails only when the watch does. A row with less than
// five clean rounds is made of all its rounds, and a note says so.
Result<Report> clean_rounds(const Contest& contest, const CleanRoundsOptions& options);

// Teams to measure: one thread, and all of `threads` (0: what this process may run on).
std::vector<int> team_sizes(int threads);

}  // namespace headrace::bench
