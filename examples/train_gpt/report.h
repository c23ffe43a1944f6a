// What a run has to tell: as JSON, and as the closing table.
//
// Plain numbers, filled in by the trainer. Seconds are medians over the steps unless said
// otherwise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/train_gpt/options.h"
#include "runtime/engine.h"

namespace train_gpt {

struct StepLoss {
  std::uint64_t step = 0;
  double loss = 0;  // nats per byte
};

// The parts of a step, each measured alone, and the best step they allow.
struct StepParts {
  std::uint64_t accumulate = 1, units = 1;
  double forward = 0, backward = 0;  // of one micro-batch
  double update = 0;                 // the optimizer's lane at work
  double io = 0;                     // reading and writing the state that is on NVMe: T_io (1 - c)
  double early_read = 0;  // share of that state's shards that is read during backward: k / K
  bool shared_cores = true;

  // A T_b + (A-1) T_f + max(T_f + s T_update, T_io (1-c) (1-k/K) + T_f / U), as architecture.md has
  // it under "The step is lazy".
  double best() const;
};

struct RunReport {
  Options options;
  std::uint64_t first_step = 1, last_step = 0;
  std::vector<StepLoss> losses;
  std::optional<double> held_out_loss;
  std::uint64_t state_hash = 0;
  bool interrupted = false;

  headrace::Stats stats;  // at the end
  // Of state, by the steps alone: no saves, no starting weights.
  std::uint64_t nvme_read_bytes = 0, nvme_written_bytes = 0;
  std::uint64_t activation_bytes = 0, scratch_bytes = 0, peak_rss_bytes = 0, text_bytes = 0;

  double step_seconds = 0;
  double exposed_seconds =
      0;                      // compute stood still for parameters, the norm or a gradient's buffer
  double update_seconds = 0;  // from step() to its end, nothing else running
  StepParts parts;

  std::uint64_t steps() const { return losses.size(); }
  double tokens_per_second() const;
  double ratio() const;               // step time over the best possible one
  double hidden_share() const;        // of the update
  double read_per_parameter() const;  // and step, of the padded parameters
  double written_per_parameter() const;
  double written_per_day() const;  // bytes, at this pace
  double padding_share() const;
};

std::string to_json(const RunReport& report);
std::string to_table(const RunReport& report);

}  // namespace train_gpt
