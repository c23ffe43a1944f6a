// Bulk conversion between element types, and the addition of gradients.
//
// Element by element, so the bits do not depend on the team. Any count, aligned to the element
// only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optim_cpu/dtype.h"
#include "optim_cpu/team.h"

namespace headrace {

// Element i of an array of any type.
inline float float_at(const std::byte* array, ScalarType type, std::size_t i) noexcept {
  if (type == ScalarType::fp32) return reinterpret_cast<const float*>(array)[i];
  const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(array)[i];
  return type == ScalarType::bf16 ? float_of_bf16(bits) : float_of_fp16(bits);
}

// dst[i] = src[i], rounded as in dtype.h. dst and src do not overlap.
void convert(std::byte* dst, ScalarType dst_type, const std::byte* src, ScalarType src_type,
             std::size_t count, const Team& team);

// sum[i] += src[i], in fp32. sum and src do not overlap.
void add_gradient(float* sum, const std::byte* src, ScalarType src_type, std::size_t count,
                  const Team& team);

}  // namespace headrace
