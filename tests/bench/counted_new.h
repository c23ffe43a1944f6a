// Calls of operator new of this whole program; those with an alignment of their own are not
// counted.
#pragma once

#include <cstdint>

namespace headrace::bench {

std::uint64_t allocations_made() noexcept;

}  // namespace headrace::bench
