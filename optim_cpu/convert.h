// Bulk conversion between element types, and the addition of gradients.
//
// Element by element, so the bits do not depend on the team. Any count, aligned to the element
// only.
#pragma once

#include <cstddef>

#include "optim_cpu/dtype.h"
#include "optim_cpu/team.h"

namespace headrace {

// dst[i] = src[i], rounded as in dtype.h. dst and src do not overlap.
void convert(std::byte* dst, ScalarType dst_type, const std::byte* src, ScalarType src_type,
             std::size_t count, const Team& team);

// sum[i] += src[i], in fp32. sum and src do not overlap.
void add_gradient(float* sum, const std::byte* src, ScalarType src_type, std::size_t count,
                  const Team& team);

}  // namespace headrace
