#include "bench/train_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "bench/model.h"
#include "bench/raw_file.h"
#include "bench/training.h"
#include "io/faults.h"

namespace headrace::bench {
namespace {

ModelOptions model_options(const TrainBenchOptions& options, StateHome home) {
  ModelOptions model;
  model.unit_elements = unit_elements(options.state_bytes, options.units, options.format);
  model.units = options.units;
  model.max_norm = options.max_norm;
  model.engine.format = options.format;
  model.engine.state = home;
  if (home == StateHome::nvme) model.engine.nvme_paths = {options.folder};
  // The slots come out of it first.
  if (home == StateHome::nvme && options.dram_share > 0)
    model.engine.dram_bytes = static_cast<std::uint64_t>(
        static_cast<double>(options.slots) * static_cast<double>(options.shard_bytes) +
        options.dram_share * static_cast<double>(options.state_bytes));
  model.engine.shard_bytes = options.shard_bytes;
  model.engine.slots = options.slots;
  model.engine.threads = options.threads;
  return model;
}

// Steps alone, the first of which warms up: the median of what `seconds` says of each other one.
template <class Seconds>
Result<double> median_of_steps(Model& model, const Seconds& seconds) {
  std::vector<double> all;
  for (int step = 0; step < 4; ++step) {
    HEADRACE_ASSIGN(const StepSample sample, model.timed_step());
    if (step > 0) all.push_back(seconds(sample));
  }
  return quartiles(all).median;
}

// T_io: all of the state's bytes, as if all were on NVMe, at the rate of a step alone.
Result<double> measure_io(Model& model, StateFormat format) {
  const double all_bytes =
      bytes_per_parameter(format) * static_cast<double>(model.engine().stats().padded_parameters);
  return median_of_steps(model, [all_bytes](const StepSample& sample) {
    const auto moved = static_cast<double>(sample.read_bytes + sample.written_bytes);
    return sample.seconds * all_bytes / moved;
  });
}

// T_update: the same step with its state in DRAM.
Result<double> measure_update(Platform& platform, const TrainBenchOptions& options,
                              const Pages& gradient) {
  HEADRACE_ASSIGN(Model model,
                  Model::open(platform, model_options(options, StateHome::dram), gradient));
  return median_of_steps(model, [](const StepSample& sample) { return sample.seconds; });
}

// T_f and T_b: with nothing else under way.
Status measure_passes(Training& training, StepParts& parts) {
  HEADRACE_ASSIGN(parts.forward, training.time_forward());
  HEADRACE_ASSIGN(parts.backward, training.time_backward());
  return {};
}

Status train_row(Platform& platform, const TrainBenchOptions& options, Model& model,
                 StepParts parts, double io_over_forward, Report& report) {
  const double pass = parts.io / io_over_forward;
  Training training(platform, model, {.forward = pass, .backward = pass});
  HEADRACE_TRY(measure_passes(training, parts));
  HEADRACE_TRY(training.step().status());  // has no update under its forward
  std::string name = fmt::format("train.{}.io{}", name_of(options.format), io_over_forward);
  if (options.dram_share > 0) name += fmt::format(".c{:.2f}", parts.in_dram);
  std::vector<Round> rounds;
  Nanoseconds begin{0};
  for (std::size_t step = 0; step < options.steps; ++step) {
    HEADRACE_TRY(before_round(options.watch, name, step));
    begin = platform.clock().now();
    HEADRACE_ASSIGN(const double seconds, training.step());
    rounds.push_back({seconds, best_step_seconds(parts)});
  }
  if (options.timeline)
    report.timelines.push_back(timeline_of(*platform.trace(), name, begin, platform.clock().now()));
  HEADRACE_TRY(training.finish());
  report.rows.push_back(time_row(name, rounds));
  report.notes.push_back(fmt::format(
      "T_io = {} T_f: alone T_f {:.4f} s, T_b {:.4f} s, T_update {:.4f} s, T_io {:.4f} s",
      io_over_forward, parts.forward, parts.backward, parts.update, parts.io));
  return {};
}

// One way, in pieces like a step's, with nothing else under way.
Result<double> time_link(Platform& platform, std::uint64_t bytes, std::uint64_t piece_bytes) {
  HEADRACE_ASSIGN(const Memory below, platform.device().allocate(Home::host, piece_bytes));
  HEADRACE_ASSIGN(const Memory above, platform.device().allocate(Home::device, piece_bytes));
  const std::unique_ptr<Stream> link = platform.device().open_stream("link alone");
  std::vector<Event> ends;
  const Nanoseconds start = platform.clock().now();
  for (std::uint64_t left = bytes; left > 0;) {
    const std::uint64_t size = std::min(left, piece_bytes);
    ends.push_back(link->copy(above.view().sub(0, size), below.view().sub(0, size)));
    left -= size;
  }
  HEADRACE_TRY(platform.wait(Event::all(ends), std::chrono::seconds(60)));
  return seconds_of(platform.clock().now() - start);
}

Result<std::unique_ptr<Platform>> open_platform(const TrainBenchOptions& options,
                                                const std::shared_ptr<Messages>& messages) {
  PlatformOptions settings;
  const std::uint64_t rate = options.disk_bytes_per_second;
  settings.wrap_engine = [rate](std::unique_ptr<IoEngine> inner, Clock&) {
    return rate_limited_engine(std::move(inner), {rate, rate});
  };
  settings.device.copy_bytes_per_second = options.link_bytes_per_second;
  settings.on_message = collector(messages);
  settings.trace = options.timeline || !options.trace.empty();
  return Platform::open(std::move(settings));
}

}  // namespace

TrainBenchOptions quick_train_bench() {
  TrainBenchOptions options;
  options.state_bytes = 96 * kMiB;
  options.shard_bytes = 3 * kMiB;
  options.steps = 4;
  return options;
}

Status train_rows(Platform& platform, const TrainBenchOptions& options, Report& report) {
  const ModelOptions wanted = model_options(options, StateHome::nvme);
  HEADRACE_ASSIGN(const Pages gradient, Model::allocate_gradient(wanted));
  StepParts parts{.units = options.units};
  HEADRACE_ASSIGN(parts.update, measure_update(platform, options, gradient));
  HEADRACE_ASSIGN(Model model, Model::open(platform, wanted, gradient));
  const Stats stats = model.engine().stats();
  if (stats.nvme_shards == 0)
    return {Code::invalid, fmt::format("a share of {} of the state in DRAM leaves none on NVMe: "
                                       "take a smaller one",
                                       options.dram_share)};
  HEADRACE_ASSIGN(parts.io, measure_io(model, options.format));
  parts.in_dram =
      1 - static_cast<double>(stats.nvme_parameters) / static_cast<double>(stats.padded_parameters);
  parts.slots_of_shards =
      std::min(1.0, static_cast<double>(options.slots) / static_cast<double>(stats.nvme_shards));
  report.notes.push_back(stats.placement);
  for (const double ratio : options.io_over_forward)
    HEADRACE_TRY(train_row(platform, options, model, parts, ratio, report));
  return model.engine().close(std::chrono::seconds(60));
}

Status links_row(Platform& platform, const TrainBenchOptions& options, Report& report) {
  const ModelOptions wanted = model_options(options, StateHome::hbm);
  HEADRACE_ASSIGN(const Pages gradient, Model::allocate_gradient(wanted));
  HEADRACE_ASSIGN(Model model, Model::open(platform, wanted, gradient));
  const Stats stats = model.engine().stats();
  const std::uint64_t bytes = stats.held.hbm_state;  // up; what the slots hold already is not down
  HEADRACE_TRY(model.timed_step().status());         // warms up
  const std::string name = fmt::format("links.{}", name_of(options.format));
  std::vector<Round> rounds;
  StepSample last;
  for (std::size_t step = 0; step < options.steps; ++step) {
    HEADRACE_TRY(before_round(options.watch, name, step));
    HEADRACE_ASSIGN(const double alone, time_link(platform, bytes, bytes / stats.shards));
    HEADRACE_ASSIGN(const StepSample sample, model.timed_step());
    rounds.push_back({sample.seconds, alone});
    last = sample;
  }
  if (options.timeline)
    report.timelines.push_back(timeline_of(*platform.trace(), name, last.begin, last.end));
  report.rows.push_back(time_row(name, rounds));
  return model.engine().close(std::chrono::seconds(60));
}

Result<Report> bench_train(const TrainBenchOptions& options) {
  HEADRACE_TRY(check_space("bench step --train", options.folder, options.state_bytes));
  Report report;
  const auto messages = std::make_shared<Messages>();
  HEADRACE_ASSIGN(const std::unique_ptr<Platform> platform, open_platform(options, messages));
  HEADRACE_TRY(train_rows(*platform, options, report));
  HEADRACE_TRY(links_row(*platform, options, report));
  if (!options.trace.empty()) HEADRACE_TRY(platform->trace()->write(options.trace));
  append(report.notes, *messages);
  return report;
}

}  // namespace headrace::bench
