// What the tests of optim_cpu share: random sources that print their seed, aligned arrays, and
// numbers that exercise every path.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "optim_cpu/dtype.h"

namespace headrace {

using Random = std::mt19937_64;

// HEADRACE_SEED repeats a run.
inline Random seeded_with(std::uint64_t usual) {
  const char* const given = std::getenv("HEADRACE_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : usual;
  std::cout << "seed " << seed << '\n';
  return Random(seed);
}

inline Random seeded() { return seeded_with(std::random_device{}()); }

// Zeroed bytes on a cache line's border, with a line of a known pattern behind them.
class Array {
 public:
  explicit Array(std::size_t size)
      : size_(size), bytes_(static_cast<std::byte*>(std::aligned_alloc(64, padded() + 64))) {
    std::memset(data(), 0, padded());
    std::memset(data() + size_, kGuard, padded() + 64 - size_);
  }
  Array(const Array& other) : Array(other.size_) { std::memcpy(data(), other.data(), size_); }
  Array& operator=(const Array&) = delete;
  ~Array() { EXPECT_TRUE(guard_stands()) << "written past the end"; }

  std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  float* floats() const { return reinterpret_cast<float*>(data()); }
  std::uint16_t* halves() const { return reinterpret_cast<std::uint16_t*>(data()); }
  bool operator==(const Array& other) const {
    return size_ == other.size_ && std::memcmp(data(), other.data(), size_) == 0;
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  static constexpr int kGuard = 0x5a;

  std::size_t padded() const { return (size_ + 63) / 64 * 64; }
  bool guard_stands() const {
    for (std::size_t i = size_; i < padded() + 64; ++i)
      if (data()[i] != std::byte{kGuard}) return false;
    return true;
  }

  std::size_t size_;
  std::unique_ptr<std::byte, Free> bytes_;
};

inline void set_element(const Array& array, ScalarType type, std::size_t i, float value) {
  if (type == ScalarType::fp32) array.floats()[i] = value;
  if (type == ScalarType::bf16) array.halves()[i] = bf16_of_float(value);
  if (type == ScalarType::fp16) array.halves()[i] = fp16_of_float(value);
}

inline Array normal_array(std::size_t count, ScalarType type, double deviation, Random& random) {
  Array array(count * size_of(type));
  std::normal_distribution<double> normal(0, deviation);
  for (std::size_t i = 0; i < count; ++i)
    set_element(array, type, i, static_cast<float>(normal(random)));
  return array;
}

// Any bits at all: NaNs of every payload, infinities, subnormals.
inline Array any_bits(std::size_t count, ScalarType type, Random& random) {
  Array array(count * size_of(type));
  for (std::size_t i = 0; i < array.size(); ++i) array.data()[i] = std::byte(random());
  return array;
}

inline constexpr ScalarType kTypes[] = {ScalarType::fp32, ScalarType::bf16, ScalarType::fp16};

inline const char* name_of(ScalarType type) {
  return type == ScalarType::fp32 ? "fp32" : type == ScalarType::bf16 ? "bf16" : "fp16";
}

}  // namespace headrace
