// The inner loop of adamw_update, chosen by instruction set. For adamw.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optim_cpu/adamw.h"

namespace headrace {

// Updates elements [begin, end) of a run, both multiples of kSegmentElements.
using AdamWKernel = void (*)(const AdamWRun& run, std::size_t begin, std::size_t end);

// target: one of available_targets(), or 0 for the best. Aborts on any other.
AdamWKernel adamw_kernel(std::int64_t target);

}  // namespace headrace
