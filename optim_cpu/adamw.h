// AdamW on the host: one call updates the segments of a shard.
//
// Called by the optimizer's lane; the segments' memory must not be touched by others meanwhile.
// Preconditions are contracts: nothing here fails. Bits are the same for every team, every way of
// cutting the elements into calls, and for the layouts fp32 and split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "optim_cpu/dtype.h"
#include "optim_cpu/state_format.h"
#include "optim_cpu/team.h"

namespace headrace {

// The hyperparameters of one group, free to change at each step. eps must be positive where a
// gradient may be zero from the start on.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled =
      true;  // AdamW: p decays by lr * weight_decay. false, Adam: g += weight_decay * p
};

// What one step multiplies with, each computed in double and rounded once.
struct AdamWScalars {
  float grad_factor;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float inv_sqrt_correction2;  // 1 / sqrt(1 - beta2^step)
  float eps;
  float step_size;      // lr / (1 - beta1^step)
  float decay;          // lr * weight_decay if decoupled, else 0
  float coupled_decay;  // weight_decay if not decoupled, else 0
};

// step counts from 1: the number of this update. grad_factor is the clip factor over the loss
// scale.
AdamWScalars adamw_scalars(const AdamW& group, std::uint64_t step, double grad_factor);

// One segment of one shard. Every pointer is 64-byte aligned, count a multiple of kSegmentElements.
struct AdamWRun {
  StateLayout layout = StateLayout::fp32;
  StateView state;
  std::byte* param = nullptr;  // read where it is (part of) the master, else only written
  ScalarType param_type = ScalarType::bf16;
  const std::byte* grad = nullptr;  // never written
  ScalarType grad_type = ScalarType::bf16;
  std::size_t count = 0;
  AdamWScalars scalars{};
};

// Per element (Loshchilov and Hutter, Decoupled Weight Decay Regularization, algorithm 2), in fp32:
//   g = fma(coupled_decay, p, grad * grad_factor)
//   m = fma(beta1, m, (1 - beta1) g)
//   v = fma(beta2, v, ((1 - beta2) g) g)
//   u = m / fma(sqrt(v), inv_sqrt_correction2, eps)
//   p = p - fma(decay, p, step_size * u)
// and where p, m or v becomes NaN, all three do, with the bits of kNanBits. A parameter of 16 bits
// is the rounding of p. On return other engines may read what was written.
void adamw_update(std::span<const AdamWRun> runs, const Team& team);

}  // namespace headrace
