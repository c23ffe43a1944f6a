// What `bench all` concludes: which resource limits a step on this machine, what one more of each
// would bring, and the settings that follow. Pure: from measured rates to numbers and to a page of
// text.
#pragma once

#include <cstdint>
#include <string>

#include "optim_cpu/state_format.h"

namespace headrace::bench {

// Bytes per second, all above 0.
struct MeasuredRates {
  double disk_read = 0, disk_write = 0, disk_mixed = 0;
  double update = 0;             // memory traffic of AdamW on all cores
  double norm = 0;               // gradient bytes that the norm reads
  double up = 0, down = 0;       // host to device and back
  std::uint64_t dram_bytes = 0;  // that state may take; 0: only the slots
};

// Seconds that each part of a step takes alone, for all parameters: bf16, gradients bf16.
struct StepCosts {
  double disk = 0;    // (1 - share in DRAM) of the state, read and written
  double update = 0;  // of all parameters
  double norm = 0;
  double copies = 0;  // gradients down and parameters up, at once
  double longest() const noexcept;
};

// `share` of the state stays in DRAM, 0 to 1; `drives` like the measured one, `cores` times as
// fast.
struct Variant {
  double share = 0;
  double drives = 1;
  double cores = 1;
};
StepCosts costs_of(const MeasuredRates& rates, double parameters, StateFormat format,
                   const Variant& variant = {});

// The share of the state of so many parameters that the rates' DRAM holds beside the slots.
double share_in_dram(const MeasuredRates& rates, double parameters, StateFormat format);

// One page: costs of both formats, the limit, one more drive, GB of DRAM and twice the cores, and
// the settings for a model of this size.
std::string verdict(const MeasuredRates& rates, double parameters);

}  // namespace headrace::bench
