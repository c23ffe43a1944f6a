// What each of several NVMe paths gives while all of them are busy, and the shares that follow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "io/platform.h"
#include "tiers/stripes.h"

namespace headrace {

// Bytes per second of each path, half of them read and half written, all paths at once: of unnamed
// files of `bytes` each, which takes as much memory for each. Blocks until they are over,
// `deadline` at most. Fails as Stripes::open, and with what a transfer says.
Result<std::vector<double>> measure_paths(Platform& platform,
                                          std::span<const std::filesystem::path> folders,
                                          const NvmeOptions& options, std::uint64_t bytes,
                                          Nanoseconds deadline);

// In whole numbers without a common divisor, of some 64 in all.
// Rates within a tenth of their mean count as equal: a measurement is no better than that.
std::vector<unsigned> shares_of(std::span<const double> rates);

}  // namespace headrace
