#include "optim_cpu/grad_norm.h"

#include <cmath>
#include <limits>

#include "optim_cpu/convert.h"
#include "tests/optim_cpu/samples.h"

namespace headrace {
namespace {

// Nothing, less than a row, a row and a bit, whole blocks, blocks and a bit.
constexpr std::size_t kCounts[] = {0, 1, 63, 64, 1000, kNormBlock, 3 * kNormBlock + 4097};

std::vector<BlockSum> sums_of(const Array& grad, ScalarType type, const Team& team) {
  const std::size_t count = grad.size() / size_of(type);
  std::vector<BlockSum> sums(norm_blocks(count), BlockSum{.sum = -1, .first_non_finite = -2});
  block_sums(grad.data(), type, count, sums, team);
  return sums;
}

long double squares(const Array& grad, ScalarType type, std::size_t begin, std::size_t end) {
  long double sum = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const long double value = float_at(grad.data(), type, i);
    sum += value * value;
  }
  return sum;
}

// Against long double, block by block.
void expect_accurate(const Array& grad, ScalarType type) {
  const std::size_t count = grad.size() / size_of(type);
  const std::vector<BlockSum> sums = sums_of(grad, type, {});
  for (std::size_t b = 0; b < sums.size(); ++b) {
    const std::size_t begin = b * kNormBlock, end = std::min(begin + kNormBlock, count);
    const long double exact = squares(grad, type, begin, end);
    EXPECT_NEAR(static_cast<double>(sums[b].sum / (exact == 0 ? 1.0L : exact)), exact == 0 ? 0 : 1,
                2e-7)
        << name_of(type) << " block " << b << " of " << count;
    EXPECT_EQ(sums[b].first_non_finite, -1);
  }
}

TEST(GradNorm, SumsAreThoseOfLongDouble) {
  Random random = seeded();
  for (const ScalarType type : kTypes)
    for (const std::size_t count : kCounts)
      expect_accurate(normal_array(count, type, 0.02, random), type);
}

TEST(GradNorm, SquaresTooLargeOrTooSmallForFp32AreSummedAllTheSame) {
  Random random = seeded();
  for (const double size : {1e37, 1e20, 1e-18, 1e-25, 1e-37})
    for (const ScalarType type : {ScalarType::fp32, ScalarType::bf16})
      expect_accurate(normal_array(kNormBlock + 333, type, size, random), type);
  expect_accurate(normal_array(kNormBlock + 333, ScalarType::fp16, 1e-6, random), ScalarType::fp16);
  expect_accurate(normal_array(kNormBlock + 333, ScalarType::fp16, 1e4, random), ScalarType::fp16);
}

TEST(GradNorm, OneLargeElementAmongZeros) {
  for (const float value : {3e38f, 1e-38f, 1e-45f}) {
    const Array grad(4 * 1000);
    grad.floats()[777] = value;
    EXPECT_EQ(sums_of(grad, ScalarType::fp32, {})[0].sum, double{value} * double{value});
  }
}

TEST(GradNorm, ZerosSumToZero) {
  for (const ScalarType type : kTypes) {
    const Array grad(kNormBlock * size_of(type));
    EXPECT_EQ(sums_of(grad, type, {})[0].sum, 0);
  }
}

bool same_bits(const BlockSum& a, const BlockSum& b) {
  return std::bit_cast<std::uint64_t>(a.sum) == std::bit_cast<std::uint64_t>(b.sum) &&
         a.first_non_finite == b.first_non_finite;
}

void expect_same_on_every_team(const Array& grad, ScalarType type) {
  const std::vector<BlockSum> expected = sums_of(grad, type, {});
  for (const std::int64_t target : available_targets()) {
    for (const int threads : {1, 2, 3}) {
      const std::vector<BlockSum> sums = sums_of(grad, type, {threads, target});
      EXPECT_TRUE(std::ranges::equal(sums, expected, same_bits))
          << name_of(type) << " " << target_name(target) << " " << threads;
    }
  }
}

TEST(GradNorm, BitsAreTheSameOnEveryTeam) {
  Random random = seeded();
  for (const ScalarType type : kTypes) {
    for (const std::size_t count : kCounts) {
      expect_same_on_every_team(normal_array(count, type, 0.02, random), type);
      expect_same_on_every_team(any_bits(count, type, random), type);
    }
    expect_same_on_every_team(normal_array(kNormBlock + 100, type, 1e-30, random), type);
  }
}

TEST(GradNorm, ABlockCountedAloneGivesTheSameBits) {
  Random random = seeded();
  const Array grad = normal_array(3 * kNormBlock + 99, ScalarType::bf16, 1, random);
  const std::vector<BlockSum> whole = sums_of(grad, ScalarType::bf16, {});
  for (std::size_t b = 0; b < whole.size(); ++b) {
    const std::size_t begin = b * kNormBlock;
    const std::size_t count = std::min(kNormBlock, grad.size() / 2 - begin);
    BlockSum alone;
    block_sums(grad.data() + 2 * begin, ScalarType::bf16, count, {&alone, 1}, {});
    EXPECT_TRUE(same_bits(alone, whole[b]));
  }
}

TEST(GradNorm, TheFirstNonFiniteElementIsNamed) {
  Random random = seeded();
  constexpr std::size_t kCount = 2 * kNormBlock + 50;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const ScalarType type : kTypes) {
    const Array grad = normal_array(kCount, type, 1, random);
    for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::size_t at :
           {std::size_t{0}, std::size_t{16384}, kNormBlock - 1, kNormBlock, 2 * kNormBlock + 49}) {
        const Array spoiled(grad);
        set_element(spoiled, type, at, bad);
        set_element(spoiled, type, kCount - 1, bad);
        const std::vector<BlockSum> sums = sums_of(spoiled, type, {.threads = 2});
        const std::size_t block = at / kNormBlock;
        EXPECT_EQ(sums[block].first_non_finite, static_cast<std::int64_t>(at % kNormBlock));
        EXPECT_TRUE(std::isinf(sums[block].sum));
        for (std::size_t b = 0; b < block; ++b) EXPECT_EQ(sums[b].first_non_finite, -1);
      }
    }
  }
}

TEST(GradNorm, ASignallingNanIsNonFinite) {
  for (const ScalarType type : {ScalarType::bf16, ScalarType::fp16}) {
    const Array grad(2 * 300);
    grad.halves()[222] = type == ScalarType::bf16 ? 0xff81 : 0xfc01;
    for (const std::int64_t target : available_targets())
      EXPECT_EQ(sums_of(grad, type, {1, target})[0].first_non_finite, 222);
  }
}

}  // namespace
}  // namespace headrace
