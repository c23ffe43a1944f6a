// Element types of parameters, gradients and state, and the conversions between them.
//
// Pure arithmetic, callable from any thread. Every conversion is exact or correctly rounded, and the
// same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

enum class ScalarType : std::uint8_t { fp32, bf16, fp16 };

// Bytes of one element.
constexpr std::size_t size_of(ScalarType type) noexcept {
  return type == ScalarType::fp32 ? 4 : 2;
}

}  // namespace headrace
