// A failing program with as many of its operations left out as can be while it still fails.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/simulation/run.h"

namespace headrace::simulation {

// The program's operations with these numbers.
Program chosen(const Program& program, const std::vector<std::size_t>& numbers);

// Delta debugging, after Zeller and Hildebrandt; at most `runs` runs. The numbers that are left.
std::vector<std::size_t> shrink(const Machine& machine, const Program& program, std::size_t runs);

}  // namespace headrace::simulation
