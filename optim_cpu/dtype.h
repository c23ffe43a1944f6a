// Element types of parameters, gradients and state, and the conversions of one element.
//
// Pure arithmetic, callable from any thread. Every conversion is exact or correctly rounded, the
// same on every machine, and keeps NaN a NaN. They have no branches, so that loops over them
// vectorize.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace headrace {

enum class ScalarType : std::uint8_t { fp32, bf16, fp16 };

// Bytes of one element.
constexpr std::size_t size_of(ScalarType type) noexcept { return type == ScalarType::fp32 ? 4 : 2; }

// What every NaN of the optimizer's state becomes: the payload of an arithmetic result depends on
// the instructions chosen, and the state's bits must not.
inline constexpr std::uint32_t kNanBits = 0x7fc00000;

constexpr float float_of_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// To nearest, ties away from zero: what cutting off the low half of bits + 0x8000 gives, so that a
// bf16 parameter can be the high half of its fp32 master.
constexpr std::uint16_t bf16_of_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x8000u) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

// Selects by a mask: compilers do not vectorize a choice that may skip floating-point arithmetic.
constexpr std::uint32_t chosen(bool first, std::uint32_t a, std::uint32_t b) noexcept {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(first);
  return (a & mask) | (b & ~mask);
}

// As the F16C instruction: exact, a signalling NaN becomes quiet.
constexpr float float_of_fp16(std::uint16_t bits) noexcept {
  constexpr std::uint32_t kInfinity = 0x7c00u << 13;
  const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
  const bool subnormal = magnitude < (1u << 23);
  const std::uint32_t biased = magnitude + chosen(subnormal, 113u << 23, 112u << 23);
  const float value =
      std::bit_cast<float>(biased) - std::bit_cast<float>(chosen(subnormal, 113u << 23, 0));
  const std::uint32_t special = chosen(magnitude >= kInfinity, 0x7f800000, 0);
  const std::uint32_t quiet = chosen(magnitude > kInfinity, 0x400000, 0);
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  return std::bit_cast<float>(sign | special | quiet | std::bit_cast<std::uint32_t>(value));
}

// As the F16C instruction: to nearest, ties to even, overflow to infinity.
constexpr std::uint16_t fp16_of_float(float value) noexcept {
  constexpr std::uint32_t kTooLarge = 143u << 23, kSmallestNormal = 113u << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const bool subnormal = magnitude < kSmallestNormal;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 leaves exactly the bits of a subnormal fp16 in the sum, rounded by the addition.
  const float sum = std::bit_cast<float>(chosen(subnormal, magnitude, 0)) + 0.5f;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(sum) - (126u << 23);
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const std::uint32_t special = chosen(magnitude > 0x7f800000u, nan, 0x7c00u);
  const std::uint32_t finite = chosen(subnormal, small, normal);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  return static_cast<std::uint16_t>(sign | chosen(magnitude >= kTooLarge, special, finite));
}

}  // namespace headrace
