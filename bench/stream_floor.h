// The floor of an AdamW update: its memory streams without its arithmetic.
//
// Reads and writes the very streams that the update of the same run would, with the same kinds of
// store, on the same team, without prefetch. What is updated in place keeps its bits (with `flip`
// 0), so floor and update can take turns on the same arrays. Runs of the layouts fp32 and split
// with gradients of any type and parameters of 16 bits, each stream 64-byte aligned, a multiple of
// 256 elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optim_cpu/adamw.h"

namespace headrace::bench {

// Bytes that the update of one element reads and writes: with gradients of 16 bits 28 for fp32, 26
// for split.
std::size_t stream_bytes_per_element(StateLayout layout, ScalarType grad = ScalarType::bf16);

// Every element of every stream in place becomes itself xor (its gradient's low bits & flip); in
// fp32 the 16-bit copy becomes the high half of the new master. Any flip moves the same bytes.
void stream_floor(const AdamWRun& run, std::uint16_t flip, const Team& team);

}  // namespace headrace::bench
