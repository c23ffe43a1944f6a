// Model: what the step benchmarks train: equal units of one bf16 tensor each, with random weights
// and gradients of the sizes that training meets. From one thread; the platform must outlive it.
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

struct ModelOptions {
  EngineOptions engine;
  std::uint64_t state_bytes = kGiB;  // rounded up to whole units
  unsigned units = 24;
  double max_norm = 1;  // clipping; 0: none
};

// One step, and the bytes of state on NVMe that moved while its clock ran.
struct StepSample {
  double seconds = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  double disk_idle_seconds = 0;  // nothing was in flight
};

class Model {
 public:
  // Memory for the gradient that every unit gets; apart, so that it need not count as the engine's.
  static Result<Pages> allocate_gradient(const ModelOptions& options);
  // Opens the engine, adds the units, seals it, writes the weights, and fills `gradient`, which
  // must outlive the model.
  static Result<Model> open(Platform& platform, const ModelOptions& options, const Pages& gradient);

  Engine& engine() noexcept { return *engine_; }
  unsigned units() const noexcept { return static_cast<unsigned>(tensors_.size()); }
  std::uint64_t elements_per_unit() const noexcept { return elements_; }

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

  Platform* platform_;
  std::unique_ptr<Engine> engine_;
  ConstMemView gradient_;
  double max_norm_;
  std::uint64_t elements_ = 0;
  std::vector<TensorId> tensors_;
  std::unique_ptr<Stream> pause_;
};

}  // namespace headrace::bench
