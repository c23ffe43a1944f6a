// Physical memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>

namespace headrace::bench {

// 0 when the kernel does not tell.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();

// The peak begins again at what is resident now. False when the kernel does not allow it: then the
// peak is that of the whole process.
bool reset_peak_resident();

}  // namespace headrace::bench
