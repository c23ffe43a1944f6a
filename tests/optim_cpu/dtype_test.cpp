#include "optim_cpu/dtype.h"

#include <cmath>
#include <limits>

#include "tests/optim_cpu/samples.h"

namespace headrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The value of a 16-bit float with so many exponent bits, from its definition.
double decoded(std::uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1), hidden = 1 << mantissa_bits;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(hidden + mantissa, exponent - bias - mantissa_bits);
}

// The size of the last place of a finite value.
double last_place(double value, int mantissa_bits, int smallest_exponent) {
  const int exponent = value == 0 ? smallest_exponent : std::ilogb(value);
  return std::ldexp(1, std::max(exponent, smallest_exponent) - mantissa_bits);
}

// std::round takes ties away from zero.
double rounded_to_bf16(double value) {
  const double place = last_place(value, 7, -126), result = std::round(value / place) * place;
  return std::abs(result) >= 0x1p128 ? std::copysign(kInfinity, value) : result;
}

// std::nearbyint takes ties to even.
double rounded_to_fp16(double value) {
  const double place = last_place(value, 10, -14), result = std::nearbyint(value / place) * place;
  return std::abs(result) >= 0x1p16 ? std::copysign(kInfinity, value) : result;
}

// Equal values, and equal signs of zeros.
void expect_same(double value, double expected, double of) {
  EXPECT_TRUE(value == expected && std::signbit(value) == std::signbit(expected))
      << value << " and not " << expected << " from " << of;
}

void expect_rounded(float value) {
  if (std::isnan(value)) {
    EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of_float(value))));
    EXPECT_TRUE(std::isnan(float_of_fp16(fp16_of_float(value))));
    return;
  }
  const double wide = value;
  expect_same(float_of_bf16(bf16_of_float(value)), std::isinf(value) ? wide : rounded_to_bf16(wide),
              wide);
  expect_same(float_of_fp16(fp16_of_float(value)), std::isinf(value) ? wide : rounded_to_fp16(wide),
              wide);
}

TEST(DType, EveryBf16IsReadExactlyAndComesBack) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double expected = decoded(bits, 8);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(float_of_bf16(bits)) &&
                  bf16_of_float(float_of_bf16(bits)) == (bits | 0x40));
      continue;
    }
    expect_same(float_of_bf16(bits), expected, i);
    EXPECT_EQ(bf16_of_float(float_of_bf16(bits)), bits);
  }
}

TEST(DType, EveryFp16IsReadExactlyAndComesBack) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double expected = decoded(bits, 5);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(float_of_fp16(bits)) &&
                  fp16_of_float(float_of_fp16(bits)) == (bits | 0x200));
      continue;
    }
    expect_same(float_of_fp16(bits), expected, i);
    EXPECT_EQ(fp16_of_float(float_of_fp16(bits)), bits);
  }
}

// Each value, the middle between it and the next, and the floats just around that middle.
TEST(DType, EveryTieAndItsNeighboursAreRounded) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const std::uint32_t middle = (i << 16) + 0x8000;
    for (const std::uint32_t near : {middle - 1, middle, middle + 1})
      expect_rounded(std::bit_cast<float>(near));
    const auto half = std::bit_cast<std::uint32_t>(float_of_fp16(bits));
    const auto next = std::bit_cast<std::uint32_t>(
        float_of_fp16(static_cast<std::uint16_t>((bits & 0x7fff) == 0x7c00 ? bits : bits + 1)));
    for (const std::uint32_t near :
         {half + (next - half) / 2 - 1, half + (next - half) / 2, half + (next - half) / 2 + 1})
      expect_rounded(std::bit_cast<float>(near));
  }
}

TEST(DType, RandomFloatsAreRounded) {
  Random random = seeded();
  for (int i = 0; i < 200'000; ++i)
    expect_rounded(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
}

TEST(DType, ValuesTooLargeBecomeInfinite) {
  EXPECT_EQ(fp16_of_float(65519.99f), 0x7bff);
  EXPECT_EQ(fp16_of_float(65520.0f), 0x7c00);
  EXPECT_EQ(fp16_of_float(-1e30f), 0xfc00);
  EXPECT_EQ(bf16_of_float(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace headrace
