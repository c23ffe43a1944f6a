// The floor of a pass that only reads, such as the norm of the gradients: its loads without its
// arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/bytes.h"
#include "optim_cpu/team.h"

namespace headrace::bench {

// Reads every byte, block after block, each block as four quarters side by side, without prefetch.
// Returns the xor of all 64-bit words, which depends on each of them. `block_bytes` is a multiple
// of 256, bytes.size() of block_bytes; 64-byte aligned.
std::uint64_t read_floor(ConstBytes bytes, std::size_t block_bytes, const Team& team);

}  // namespace headrace::bench
