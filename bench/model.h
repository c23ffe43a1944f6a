// Model: what the step benchmarks and `headrace plan` train: equal units of one bf16 tensor each,
// with random weights and gradients of the sizes that training meets. Times are of the platform's
// clock: real, or virtual on a simulated one. From one thread; the platform must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/huge_pages.h"
#include "io/platform.h"
#include "io/status.h"
#include "runtime/engine.h"

namespace headrace::bench {

// Warnings of the platform, which may come from any thread.
struct Messages {
  std::mutex mutex;
  std::vector<std::string> texts;  // guarded by mutex
};
std::function<void(std::string_view)> collector(std::shared_ptr<Messages> messages);
void append(std::vector<std::string>& to, Messages& messages);

std::string_view name_of(StateFormat format) noexcept;  // "fp32", "split"
// Of state, read and written by a step.
double bytes_per_parameter(StateFormat format) noexcept;
double seconds_of(Nanoseconds time) noexcept;

struct ModelOptions {
  EngineOptions engine;
  std::uint64_t unit_elements = kShardElements;  // a multiple of kShardElements: no padding
  unsigned units = 24;
  double max_norm = 1;       // clipping; 0: none
  bool accumulates = false;  // micro-batches: gradients are kept in fp32
};
// The least of a unit, so that all of them have at least `state_bytes`.
std::uint64_t unit_elements(std::uint64_t state_bytes, unsigned units, StateFormat format);

// One step, and the bytes of state on NVMe that moved while its clock ran.
struct StepSample {
  double seconds = 0;
  double gradient_seconds = 0;  // before that: all gradients set and summed up, one pass
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  double disk_idle_seconds = 0;  // nothing was in flight
  Nanoseconds begin{0}, end{0};  // on the platform's clock
};

class Model {
 public:
  // Memory for the gradient that every unit gets; apart, so that it need not count as the engine's.
  static Result<Pages> allocate_gradient(const ModelOptions& options);
  // Opens the engine, adds the units, seals it, writes the weights, and fills `gradient`, which
  // must outlive the model.
  static Result<Model> open(Platform& platform, const ModelOptions& options, const Pages& gradient);
  // On a dry platform: nothing is written, and `gradient`, of one unit in bf16, is not read.
  static Result<Model> open_dry(Platform& platform, const ModelOptions& options,
                                ConstMemView gradient);

  Engine& engine() noexcept { return *engine_; }
  unsigned units() const noexcept { return static_cast<unsigned>(tensors_.size()); }

  // Gradients of one unit, once `after` is over.
  Event put_gradient(unsigned unit, Event after = {});
  // Every gradient, in backward order; waits until they are in.
  Status put_gradients();
  // Updates everything; returns once the norm is known.
  Result<StepReport> step();

  // A step alone: every gradient is there and the disk is quiet before the clock starts, everything
  // is in its place when it stops.
  Result<StepSample> timed_step();

 private:
  Model(Platform& platform, std::unique_ptr<Engine> engine, ConstMemView gradient, double max_norm);
  Status add_units(const ModelOptions& options);
  Status write_weights(std::span<float> buffer);
  Status wait_until_quiet();
  Nanoseconds busy() const;

  Platform* platform_;
  std::unique_ptr<Engine> engine_;
  ConstMemView gradient_;
  double max_norm_;
  std::vector<TensorId> tensors_;
  std::unique_ptr<Stream> pause_;
};

}  // namespace headrace::bench
