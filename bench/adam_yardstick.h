// What other trainers' AdamW does, as a yardstick: a loop of fp32 streams alone, and the three
// passes that a step of mixed precision makes of it. Written afresh from a description: static
// ranges, eight vectors at a time, regular stores, parameters rounded twice.
//
// Arrays are 64-byte aligned, their length a multiple of 256.
#pragma once

#include <cstdint>
#include <span>

#include "optim_cpu/adamw.h"

namespace headrace::bench {

struct YardstickRun {
  std::span<float> param;
  std::span<float> exp_avg;
  std::span<float> exp_avg_sq;
  std::span<float> grad;
  std::span<std::uint16_t> low_param;  // bf16; of the three passes alone
  AdamWScalars scalars{};
};

// The update of adamw.h but for its one rounding of p: p = p - decay p, then p - step_size u. The
// factor of the gradient is left out. Reads 16 bytes of an element, writes 12.
void adam_loop(const YardstickRun& run, const Team& team);

// Gradients times their factor, in place; the loop; parameters rounded to bf16. 42 bytes.
void adam_three_passes(const YardstickRun& run, const Team& team);

}  // namespace headrace::bench
