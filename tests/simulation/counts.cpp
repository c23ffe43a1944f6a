#include "tests/simulation/counts.h"

#include <fmt/format.h>

namespace headrace::simulation {

Counts& Counts::operator+=(const Counts& other) {
  seeds += other.seeds;
  operations += other.operations;
  steps += other.steps;
  skipped += other.skipped;
  poisoned += other.poisoned;
  crashes += other.crashes;
  saves += other.saves;
  loads += other.loads;
  corrupt += other.corrupt;
  strikes += other.strikes;
  refused += other.refused;
  unbuildable += other.unbuildable;
  reopened += other.reopened;
  return *this;
}

std::string to_string(const Counts& counts) {
  return fmt::format(
      "{} seeds, {} operations: {} steps, {} skipped, {} saves, {} loads, {} faults armed, {} "
      "crashes, {} engines poisoned, {} calls corrupt, {} illegal calls, {} machines too small, {} "
      "slabs taken up",
      counts.seeds, counts.operations, counts.steps, counts.skipped, counts.saves, counts.loads,
      counts.strikes, counts.crashes, counts.poisoned, counts.corrupt, counts.refused,
      counts.unbuildable, counts.reopened);
}

}  // namespace headrace::simulation
