// Spans of raw memory, and the sizes that the project speaks in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace headrace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;

// The next multiple of `step` (a power of two or not, never zero) at or above `value`.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) noexcept {
  return (value + step - 1) / step * step;
}

// The multiple of `step` at or below `value`.
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t step) noexcept {
  return value / step * step;
}

// For messages, decimal units: "0 B", "1.50 kB", "86.0 GB".
std::string format_bytes(std::uint64_t bytes);

}  // namespace headrace
