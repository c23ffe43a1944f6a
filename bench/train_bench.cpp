#include "bench/train_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "bench/model.h"
#include "io/faults.h"

namespace headrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

Nanoseconds nanoseconds(double seconds) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
}

ModelOptions model_options(const TrainBenchOptions& options) {
  ModelOptions model;
  model.state_bytes = options.state_bytes;
  model.units = options.units;
  model.max_norm = options.max_norm;
  model.engine.format = options.format;
  model.engine.state = StateHome::nvme;
  model.engine.nvme_paths = {options.folder};
  model.engine.shard_bytes = options.shard_bytes;
  model.engine.slots = options.slots;
  model.engine.threads = options.threads;
  return model;
}

Result<std::unique_ptr<Platform>> open_platform(const TrainBenchOptions& options,
                                                const std::shared_ptr<Messages>& messages) {
  PlatformOptions settings;
  const std::uint64_t rate = options.disk_bytes_per_second;
  settings.wrap_engine = [rate](std::unique_ptr<IoEngine> inner, Clock&) {
    return rate_limited_engine(std::move(inner), {rate, rate});
  };
  settings.on_message = collector(messages);
  return Platform::open(std::move(settings));
}

// Plays the units of a model against the engine: the compute of a unit follows its parameters.
class Player {
 public:
  Player(Platform& platform, Model& model)
      : model_(model), compute_(platform.device().open_stream("compute")) {}

  Status forward(double seconds) {
    last_ = {};
    for (unsigned unit = 0; unit < model_.units(); ++unit) HEADRACE_TRY(play(unit, seconds));
    return model_.engine().wait(last_);
  }

  Status backward(double seconds) {
    last_ = {};
    gradients_.clear();
    for (unsigned unit = model_.units(); unit-- > 0;) {
      HEADRACE_TRY(play(unit, seconds));
      gradients_.push_back(model_.put_gradient(unit, last_));
    }
    return model_.engine().wait(last_);
  }

  // The gradients of the last backward are in.
  Status wait_for_gradients() { return model_.engine().wait(Event::all(gradients_)); }

 private:
  // Queues one unit, then waits for the one before it: the stream never runs dry, and at most two
  // leases live.
  Status play(unsigned unit, double pass_seconds) {
    HEADRACE_ASSIGN(Lease lease, model_.engine().acquire(UnitId(unit)));
    const Nanoseconds time = nanoseconds(pass_seconds / model_.units());
    const Event done = compute_->occupy(time, "compute", lease.ready());
    lease.release(done);
    return model_.engine().wait(std::exchange(last_, done));
  }

  Model& model_;
  std::unique_ptr<Stream> compute_;
  Event last_;
  std::vector<Event> gradients_;
};

class TrainBench {
 public:
  TrainBench(const TrainBenchOptions& options, Platform& platform, Model& model)
      : options_(options), model_(model), player_(platform, model) {}

  // All of the state's bytes, at the rate of a step alone.
  Status measure_io() {
    std::vector<double> seconds;
    for (int step = 0; step < 4; ++step) {  // the first one warms up
      HEADRACE_ASSIGN(const StepSample sample, model_.timed_step());
      const double moved = static_cast<double>(sample.read_bytes + sample.written_bytes);
      if (step > 0) seconds.push_back(sample.seconds * all_bytes() / moved);
    }
    io_ = quartiles(seconds).median;
    return {};
  }

  Result<Row> row(double io_over_forward) {
    const double pass = io_ / io_over_forward;
    HEADRACE_ASSIGN(const StepParts parts, measure_parts(pass));
    HEADRACE_TRY(train_once(pass));  // the first has no update under its forward
    std::vector<Round> rounds;
    for (std::size_t step = 0; step < options_.steps; ++step) {
      const auto start = SteadyClock::now();
      HEADRACE_TRY(train_once(pass));
      rounds.push_back({seconds_since(start), best_step_seconds(parts)});
    }
    HEADRACE_TRY(model_.engine().wait(done_));
    return time_row(fmt::format("train.{}.io{}", name_of(options_.format), io_over_forward),
                    rounds);
  }

 private:
  double all_bytes() const {
    const double needed = options_.format == StateFormat::fp32 ? 24 : 20;
    return needed * static_cast<double>(model_.engine().stats().nvme_parameters);
  }

  // With nothing else under way: the steps before are over, and no step follows.
  Result<StepParts> measure_parts(double pass) {
    const Stats stats = model_.engine().stats();
    StepParts parts{.io = io_, .units = model_.units()};
    parts.slots_of_shards =
        std::min(1.0, static_cast<double>(options_.slots) / static_cast<double>(stats.nvme_shards));
    auto start = SteadyClock::now();
    HEADRACE_TRY(player_.forward(pass));
    parts.forward = seconds_since(start);
    start = SteadyClock::now();
    HEADRACE_TRY(player_.backward(pass));
    parts.backward = seconds_since(start);
    HEADRACE_TRY(player_.wait_for_gradients());
    HEADRACE_TRY(model_.engine().drop_gradients());
    return parts;
  }

  Status train_once(double pass) {
    HEADRACE_TRY(player_.forward(pass));
    HEADRACE_TRY(player_.backward(pass));
    HEADRACE_ASSIGN(const StepReport report, model_.step());
    done_ = report.done;
    return {};
  }

  const TrainBenchOptions& options_;
  Model& model_;
  Player player_;
  double io_ = 0;
  Event done_;
};

}  // namespace

TrainBenchOptions quick_train_bench() {
  TrainBenchOptions options;
  options.state_bytes = 192 * kMiB;
  options.shard_bytes = 4 * kMiB;
  options.steps = 4;
  return options;
}

double best_step_seconds(const StepParts& parts) {
  const double io = parts.io * (1 - parts.slots_of_shards) + parts.forward / parts.units;
  return parts.backward + std::max(parts.forward, io);
}

Result<Report> bench_train(const TrainBenchOptions& options) {
  Report report;
  const auto messages = std::make_shared<Messages>();
  HEADRACE_ASSIGN(const std::unique_ptr<Platform> platform, open_platform(options, messages));
  const ModelOptions wanted = model_options(options);
  HEADRACE_ASSIGN(const Pages gradient, Model::allocate_gradient(wanted));
  HEADRACE_ASSIGN(Model model, Model::open(*platform, wanted, gradient));
  TrainBench bench(options, *platform, model);
  HEADRACE_TRY(bench.measure_io());
  for (const double ratio : options.io_over_forward) {
    HEADRACE_ASSIGN(Row row, bench.row(ratio));
    report.rows.push_back(std::move(row));
  }
  HEADRACE_TRY(model.engine().close(std::chrono::seconds(60)));
  append(report.notes, *messages);
  return report;
}

}  // namespace headrace::bench
