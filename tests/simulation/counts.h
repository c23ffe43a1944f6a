// What happened in a run, or in many: to see that a campaign is worth something.
#pragma once

#include <cstdint>
#include <string>

namespace headrace::simulation {

struct Counts {
  std::uint64_t seeds = 0, operations = 0, steps = 0, skipped = 0, poisoned = 0, crashes = 0;
  std::uint64_t saves = 0, loads = 0, corrupt = 0, strikes = 0, refused = 0, unbuildable = 0,
                reopened = 0;
  Counts& operator+=(const Counts& other);
};
std::string to_string(const Counts& counts);

}  // namespace headrace::simulation
