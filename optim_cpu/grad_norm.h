// Sums of squares of gradients and the search for non-finite ones, in one pass over the memory.
//
// A tensor is cut in blocks of kNormBlock elements from its own beginning, the last one shorter. A
// block's sum has one fixed inner order, so its bits depend on its elements and their type alone.
// The caller adds blocks in double, in tensor order; the root of that is the global norm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "optim_cpu/dtype.h"
#include "optim_cpu/team.h"

namespace headrace {

inline constexpr std::size_t kNormBlock = 64 * 1024;

struct BlockSum {
  double sum = 0;                      // of squares; infinite when not every element is finite
  std::int64_t first_non_finite = -1;  // index in the block, or -1
};

constexpr std::size_t norm_blocks(std::size_t count) noexcept {
  return (count + kNormBlock - 1) / kNormBlock;
}

// `grad` begins at a block's border; out.size() is norm_blocks(count). Finite elements have a
// finite sum, however large or small they are.
void block_sums(const std::byte* grad, ScalarType type, std::size_t count, std::span<BlockSum> out,
                const Team& team);

}  // namespace headrace
