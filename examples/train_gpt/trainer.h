// The training run: steps, checkpoints, evaluation, and what was measured on the way.
//
// Used by one thread. Everything of headrace that it touches is Platform and, through HostedModel,
// Engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/train_gpt/hosted_model.h"
#include "examples/train_gpt/report.h"
#include "examples/train_gpt/text.h"

namespace train_gpt {

struct TrainerHooks {
  std::function<bool()> interrupted;  // asked after each step; empty: never
};

class Trainer {
 public:
  // Allocates everything; starting weights, or those of --resume. `text` and `platform` must
  // outlive the trainer.
  static headrace::Result<std::unique_ptr<Trainer>> open(headrace::Platform& platform,
                                                         const Options& options, const Text& text);
  // From the first step to the last, or to an interrupt. A checkpoint on the way that fails is
  // reported and training goes on: the one before it is whole.
  headrace::Status train(const TrainerHooks& hooks);

  // After train(), in this order or not at all.
  headrace::Status save_last();      // if --save is given
  headrace::Status evaluate();       // the loss on held-out text
  headrace::Status measure_parts();  // forward and backward alone
  headrace::Result<std::vector<std::uint8_t>> sample_text(std::size_t count);
  headrace::Status export_weights();
  headrace::Result<RunReport> report();

 private:
  Trainer(headrace::Platform& platform, const Options& options, const Text& text);
  headrace::Status resume();
  headrace::Status train_step(std::uint64_t step);
  headrace::Result<double> micro_batch(BatchPlace place);
  headrace::Status update(std::uint64_t step);
  headrace::Status settle();
  headrace::Status save(std::uint64_t step);
  headrace::Nanoseconds now() const { return platform_.clock().now(); }

  // Constant after open().
  headrace::Platform& platform_;
  const Options options_;
  const Text& text_;
  std::unique_ptr<HostedModel> hosted_;
  Model model_;
  Batch batch_;  // of the pass under way
  // The last step.
  headrace::Event updated_;
  headrace::Nanoseconds step_called_{0};
  std::vector<headrace::Usage> usage_at_step_;
  // Measured so far.
  RunReport report_;
  std::vector<double> step_seconds_, exposed_seconds_;
  std::uint64_t other_reads_ = 0, other_writes_ = 0;  // NVMe bytes that were no step's
};

}  // namespace train_gpt
