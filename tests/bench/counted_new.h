// Calls of operator new of this whole program; those with an alignment of their own are not
// counted, and none is under sanitizers.
#pragma once

#include <cstdint>

namespace headrace::bench {

std::uint64_t allocations_made() noexcept;

}  // namespace headrace::bench
