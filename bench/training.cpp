#include "bench/training.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace headrace::bench {
namespace {

Nanoseconds nanoseconds(double seconds) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace

Training::Training(Platform& platform, Model& model, const PassTimes& times)
    : platform_(platform),
      model_(model),
      times_(times),
      compute_(platform.device().open_stream("compute")) {}

Result<double> Training::time_forward() {
  HEADRACE_TRY(finish());
  const Nanoseconds start = platform_.clock().now();
  HEADRACE_TRY(forward());
  return seconds_of(platform_.clock().now() - start);
}

Result<double> Training::time_backward() {
  HEADRACE_TRY(finish());
  const Nanoseconds start = platform_.clock().now();
  HEADRACE_TRY(backward());
  const double taken = seconds_of(platform_.clock().now() - start);
  HEADRACE_TRY(model_.engine().wait(Event::all(gradients_)));
  HEADRACE_TRY(model_.engine().drop_gradients());
  return taken;
}

Result<double> Training::step() {
  const Nanoseconds start = platform_.clock().now();
  for (unsigned batch = 0; batch < times_.micro_batches; ++batch) {
    HEADRACE_TRY(forward());
    HEADRACE_TRY(backward());
  }
  HEADRACE_ASSIGN(const StepReport report, model_.step());
  done_ = report.done;
  return seconds_of(platform_.clock().now() - start);
}

Status Training::finish() { return model_.engine().wait(done_); }

Status Training::forward() {
  last_ = {};
  for (unsigned unit = 0; unit < model_.units(); ++unit) HEADRACE_TRY(play(unit, times_.forward));
  return model_.engine().wait(last_);
}

Status Training::backward() {
  last_ = {};
  gradients_.clear();
  for (unsigned unit = model_.units(); unit-- > 0;) {
    HEADRACE_TRY(play(unit, times_.backward));
    gradients_.push_back(model_.put_gradient(unit, last_));
  }
  return model_.engine().wait(last_);
}

// Queues one unit, then waits for the one before it: the stream never runs dry, and at most two
// leases live.
Status Training::play(unsigned unit, double pass_seconds) {
  HEADRACE_ASSIGN(Lease lease, model_.engine().acquire(UnitId(unit)));
  const Nanoseconds time = nanoseconds(pass_seconds / model_.units());
  const Event done = compute_->occupy(time, "compute", lease.ready());
  lease.release(done);
  return model_.engine().wait(std::exchange(last_, done));
}

double best_step_seconds(const StepParts& parts) {
  const double batches = parts.micro_batches;
  const double shared = parts.shared_cores ? parts.update : 0;
  const double io = parts.io * (1 - parts.in_dram) * (1 - parts.slots_of_shards);
  return batches * parts.backward + (batches - 1) * parts.forward +
         std::max(parts.forward + shared, io + parts.forward / parts.units);
}

double share_that_hides(const StepParts& parts) {
  const double shared = parts.shared_cores ? parts.update : 0;
  const double room = parts.forward + shared - parts.forward / parts.units;
  const double io = parts.io * (1 - parts.slots_of_shards);
  return io > room ? 1 - room / io : 0;
}

}  // namespace headrace::bench
