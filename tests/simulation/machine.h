// A random machine and a random small model for it, from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/platform.h"
#include "runtime/options.h"

namespace headrace::simulation {

struct Machine {
  std::uint64_t seed = 1;
  SimulationOptions platform;  // seed, disk and wrapper are the run's
  EngineOptions engine;
  std::vector<TensorSpec> tensors;
  std::vector<AdamW> groups;
  std::uint32_t units = 1;
  bool tight = false;  // memory or disk may not do: refusals with out_of_memory and out_of_space
};

Machine random_machine(std::uint64_t seed);
std::string to_string(const Machine& machine);

}  // namespace headrace::simulation
