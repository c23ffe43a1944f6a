// Bytes that tell where they came from, and memory aligned enough for any transfer.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "io/bytes.h"

namespace headrace {

// Each 8 bytes say which pattern they are of, and where in it: no two places are alike.
inline void fill_pattern(Bytes bytes, std::uint64_t seed, std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint64_t at = offset + i;
    const std::uint64_t word = (at / 8 + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;
    bytes[i] = static_cast<std::byte>((word ^ (word >> 29)) >> (8 * (at % 8)));
  }
}

// The first place that is not the pattern's, or the size.
inline std::size_t first_mismatch(ConstBytes bytes, std::uint64_t seed, std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::byte expected[1];
    fill_pattern(expected, seed, offset + i);
    if (bytes[i] != expected[0]) return i;
  }
  return bytes.size();
}

inline bool is_pattern(ConstBytes bytes, std::uint64_t seed, std::uint64_t offset) {
  return first_mismatch(bytes, seed, offset) == bytes.size();
}

// Zeroed bytes at a multiple of 4096.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t size)
      : size_(size), data_(new (std::align_val_t(kAlignment)) std::byte[size]()) {}

  Bytes bytes() const noexcept { return {data_.get(), size_}; }
  Bytes sub(std::size_t offset, std::size_t length) const {
    return bytes().subspan(offset, length);
  }

 private:
  static constexpr std::size_t kAlignment = 4096;
  struct Free {
    void operator()(std::byte* data) const {
      ::operator delete[](data, std::align_val_t(kAlignment));
    }
  };
  std::size_t size_;
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace headrace
