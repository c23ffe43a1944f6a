// Training: the loop that `bench step --train` measures and `headrace plan` runs dry: forward and
// backward of a Model played by a stream that takes a set time and no core, unit by unit, each
// behind its lease; gradients put as they are produced; step() after the last backward, its updates
// under the next forward. And the formula of docs/architecture.md for the best possible step.
//
// On a simulated platform the same loop runs in virtual time. From one thread; platform and model
// must outlive it.
#pragma once

#include <memory>
#include <vector>

#include "bench/model.h"

namespace headrace::bench {

// Seconds of compute in one micro-batch, over all units.
struct PassTimes {
  double forward = 0;
  double backward = 0;
  unsigned micro_batches = 1;
};

class Training {
 public:
  Training(Platform& platform, Model& model, const PassTimes& times);

  // Both alone: the updates before are over, and no gradient is left behind. In seconds.
  Result<double> time_forward();
  Result<double> time_backward();
  // Every micro-batch, then step(); in seconds, until step() returns. The updates run on.
  Result<double> step();
  // The updates of the last step are over.
  Status finish();

 private:
  Status forward();
  Status backward();
  Status play(unsigned unit, double pass_seconds);

  Platform& platform_;
  Model& model_;
  const PassTimes times_;
  const std::unique_ptr<Stream> compute_;
  Event last_;
  std::vector<Event> gradients_;
  Event done_;
};

// The parts of a training step, each measured alone, in seconds. T_io is that of all state, as if
// it were on NVMe.
struct StepParts {
  double forward = 0;   // of one micro-batch
  double backward = 0;  // of one micro-batch
  double io = 0;
  double update = 0;  // counts where compute and update share cores
  bool shared_cores = false;
  double in_dram = 0;          // c: the share of the state pinned there
  double slots_of_shards = 0;  // k / K, at most 1
  unsigned units = 1;
  unsigned micro_batches = 1;
};
double best_step_seconds(const StepParts& parts);

// The least share of the state in DRAM with which the update hides behind the forward.
double share_that_hides(const StepParts& parts);

}  // namespace headrace::bench
