// Many seeds one after the other; the first that fails is told with its program, as small as it
// gets, and the command that runs it again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/run.h"

namespace headrace::simulation {

struct Campaign {
  Counts counts;
  std::optional<std::string> failure;  // the report of the first seed that failed
};

// Seeds first, first + 1, ...
Campaign run_seeds(std::uint64_t first, std::uint64_t count);

// The same for millions, with a line now and then on the standard output. A request that never
// completes keeps its memory for good, so each thousand seeds run in a child process of their own.
Campaign run_seeds_in_children(std::uint64_t first, std::uint64_t count);

// One seed; of its program, the operations with these numbers, or (none given) all.
Campaign run_seed(std::uint64_t seed, const std::vector<std::size_t>& numbers);

// The machine and the program of a seed.
std::string describe(std::uint64_t seed);

}  // namespace headrace::simulation
