// Random numbers that are a function of their position: nothing to save, nothing to restore.
#pragma once

#include <cstdint>

namespace train_gpt {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): a bijection that mixes all bits.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

// For a seed, a purpose and a position.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  return mix(mix(mix(seed) ^ a) ^ b);
}

// In [0, 1): the upper 53 bits.
constexpr double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11U) * 0x1.0p-53;
}

}  // namespace train_gpt
