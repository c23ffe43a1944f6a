#include "optim_cpu/grad_norm.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "optim_cpu/convert.h"
#include "optim_cpu/grad_norm_kernel.h"

namespace headrace {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7f800000;

// A block whose fp32 sum is below this may have lost squares that were too small for fp32.
constexpr double kSmallSum = 0x1p-60;

std::int64_t first_non_finite(const std::byte* block, ScalarType type, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(float_at(block, type, i));
    if ((bits & kInfinityBits) == kInfinityBits) return static_cast<std::int64_t>(i);
  }
  return -1;
}

double sum_in_double(const std::byte* block, ScalarType type, std::size_t count) {
  constexpr std::size_t kSums = 8;
  double sums[kSums] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const double value = float_at(block, type, i);
    sums[i % kSums] += value * value;
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

BlockSum block_sum(const std::byte* block, ScalarType type, std::size_t count, NormKernel kernel) {
  const BlockScan scan = kernel(block, type, count);
  if (scan.largest_magnitude >= kInfinityBits) {
    return {.sum = std::numeric_limits<double>::infinity(),
            .first_non_finite = first_non_finite(block, type, count)};
  }
  const double sum = scan.sum_of_squares;
  const bool in_range = sum >= kSmallSum && sum < std::numeric_limits<double>::infinity();
  if (in_range || scan.largest_magnitude == 0) return {.sum = sum};
  return {.sum = sum_in_double(block, type, count)};
}

}  // namespace

void block_sums(const std::byte* grad, ScalarType type, std::size_t count, std::span<BlockSum> out,
                const Team& team) {
  if (out.empty()) return;
  const NormKernel kernel = norm_kernel(team.target);
  Team some = team;
  some.threads = static_cast<int>(
      std::clamp<std::size_t>(out.size(), 1, static_cast<std::size_t>(std::max(team.threads, 1))));
  on_team(some, [&](int thread) {
    const Part part = part_of(out.size(), thread, some.threads);
    for (std::size_t b = part.begin; b < part.end; ++b) {
      const std::size_t begin = b * kNormBlock, size = std::min(kNormBlock, count - begin);
      out[b] = block_sum(grad + begin * size_of(type), type, size, kernel);
    }
  });
}

}  // namespace headrace
