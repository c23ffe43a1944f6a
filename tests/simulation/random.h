// Random choices that are the same on every machine, and random values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "optim_cpu/dtype.h"

namespace headrace::simulation {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {}

  std::uint64_t bits() {  // splitmix64
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // 0 to count - 1.
  std::uint64_t below(std::uint64_t count) { return bits() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  double real(double from, double to) {
    return from + (to - from) * static_cast<double>(bits() >> 11) * 0x1p-53;
  }
  template <class T>
  T any_of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  // Small ones are as likely as large ones.
  std::uint64_t spread(std::uint64_t from, std::uint64_t to);

 private:
  std::uint64_t state_;
};

// Signs, and magnitudes over some powers of two; the same for the same seed.
std::vector<float> random_values(std::uint64_t count, std::uint64_t seed);
// The same, as elements of `type`.
std::vector<std::byte> random_elements(std::uint64_t count, ScalarType type, std::uint64_t seed);

}  // namespace headrace::simulation
