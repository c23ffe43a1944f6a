#include "tests/simulation/random.h"

#include <bit>
#include <cmath>

#include "optim_cpu/convert.h"

namespace headrace::simulation {
namespace {

// A float of 23 random bits, between 2^-8 and 2^0.
float value_of(std::uint64_t bits) {
  const std::uint32_t exponent = 119 + (static_cast<std::uint32_t>(bits >> 40) & 7);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000u;
  return std::bit_cast<float>(sign | exponent << 23 | (static_cast<std::uint32_t>(bits) >> 9));
}

}  // namespace

std::uint64_t Random::spread(std::uint64_t from, std::uint64_t to) {
  return static_cast<std::uint64_t>(
      std::exp(real(std::log(static_cast<double>(from)), std::log(static_cast<double>(to)))));
}

std::vector<float> random_values(std::uint64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = value_of(random.bits());
  return values;
}

std::vector<std::byte> random_elements(std::uint64_t count, ScalarType type, std::uint64_t seed) {
  const std::vector<float> values = random_values(count, seed);
  std::vector<std::byte> elements(count * size_of(type));
  convert(elements.data(), type, reinterpret_cast<const std::byte*>(values.data()),
          ScalarType::fp32, count, Team{});
  return elements;
}

}  // namespace headrace::simulation
