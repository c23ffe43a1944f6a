// The inner loop of block_sums, chosen by instruction set. For grad_norm.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optim_cpu/dtype.h"

namespace headrace {

// What one fast pass over a block finds.
struct BlockScan {
  double sum_of_squares;            // of fp32 partial sums: may be too large or too small for them
  std::uint32_t largest_magnitude;  // bits of the largest absolute value as float, NaN above all
};

// count is at most kNormBlock.
using NormKernel = BlockScan (*)(const std::byte* block, ScalarType type, std::size_t count);

// target: one of available_targets(), or 0 for the best. Aborts on any other.
NormKernel norm_kernel(std::int64_t target);

}  // namespace headrace
