#include "bench/step_bench.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "bench/memory_traffic.h"
#include "bench/model.h"
#include "bench/raw_disk.h"
#include "bench/raw_file.h"
#include "bench/resident.h"
#include "runtime/checkpoint_tools.h"
#include "runtime/placement.h"

namespace headrace::bench {
namespace {

constexpr std::uint64_t kCheckpointBytes = 12;  // of a parameter: master, exp_avg, exp_avg_sq

Result<double> bytes_per_second(RawDisk& disk, Direction direction, std::uint64_t bytes) {
  HEADRACE_ASSIGN(const RawSample sample, disk.measure(direction, bytes));
  return sample.gigabytes_per_second() * 1e9;
}

// The three directions, in an order of their own in every round.
Result<RawRates> measure(RawDisk& disk, std::uint64_t bytes, std::mt19937& random) {
  RawRates rates;
  std::array directions{Direction::read, Direction::write, Direction::mixed};
  std::shuffle(directions.begin(), directions.end(), random);
  for (const Direction direction : directions) {
    HEADRACE_ASSIGN(const double rate, bytes_per_second(disk, direction, bytes));
    (direction == Direction::read    ? rates.read
     : direction == Direction::write ? rates.write
                                     : rates.mixed) = rate;
  }
  return rates;
}

// A disk drifts within seconds: a step's bound is that of just before it and just after it.
RawRates between(const RawRates& a, const RawRates& b) {
  return {(a.read + b.read) / 2, (a.write + b.write) / 2, (a.mixed + b.mixed) / 2};
}

std::uint64_t dram_bytes(const StepBenchOptions& options) {
  return options.dram_bytes +
         static_cast<std::uint64_t>(options.dram_share * static_cast<double>(options.state_bytes));
}

// What is pinned beside them leaves the slots as large as they are without.
std::uint64_t shard_bytes(const StepBenchOptions& options) {
  if (options.shard_bytes > 0 || options.dram_share <= 0) return options.shard_bytes;
  return default_shard_bytes(options.dram_bytes, options.slots);
}

// The state, and a checkpoint beside the one before it.
Status check_folder(const StepBenchOptions& options) {
  const auto state = static_cast<double>(options.state_bytes);
  const double checkpoints = options.saves > 0 ? 2 * kCheckpointBytes : 0;
  double most = 0;
  for (const StateFormat format : options.formats)
    most = std::max(most, state * (1 + checkpoints / (bytes_per_parameter(format) / 2)));
  return check_space("bench step", options.folder,
                     options.raw_file_bytes + static_cast<std::uint64_t>(most));
}

ModelOptions model_options(const StepBenchOptions& options, StateFormat format) {
  ModelOptions model;
  model.unit_elements = unit_elements(options.state_bytes, options.units, format);
  model.units = options.units;
  model.max_norm = options.max_norm;
  model.engine.format = format;
  model.engine.state = StateHome::nvme;
  model.engine.dram_bytes = dram_bytes(options);
  model.engine.nvme_paths = {options.folder};
  model.engine.shard_bytes = shard_bytes(options);
  model.engine.slots = options.slots;
  model.engine.threads = options.threads;
  return model;
}

// Bytes on NVMe per padded parameter of those whose state is there, over all steps taken.
Row bytes_row(const Stats& start, const Stats& end, StateFormat format) {
  const double moved = static_cast<double>(end.nvme_read_bytes + end.nvme_written_bytes -
                                           start.nvme_read_bytes - start.nvme_written_bytes);
  const double updates =
      static_cast<double>(end.nvme_parameters) * static_cast<double>(end.steps - start.steps);
  return single_row(fmt::format("bytes.{}", name_of(format)), "B/param",
                    updates > 0 ? moved / updates : 0, bytes_per_parameter(format));
}

// Where a benchmark saves; gone with the object.
struct SaveFolder {
  SaveFolder(const std::filesystem::path& in, std::string_view format)
      : path(in / fmt::format("headrace-bench-save-{}-{}", ::getpid(), format)) {}
  ~SaveFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  SaveFolder(const SaveFolder&) = delete;
  SaveFolder& operator=(const SaveFolder&) = delete;

  const std::filesystem::path path;
};

class FormatBench {
 public:
  FormatBench(const StepBenchOptions& options, StateFormat format, RawDisk& disk, Report& report)
      : options_(options), format_(format), disk_(disk), report_(report) {}

  Status run(Platform& platform) {
    const ModelOptions wanted = model_options(options_, format_);
    HEADRACE_ASSIGN(const Pages gradient, Model::allocate_gradient(wanted));
    const bool exact_peak = reset_peak_resident();
    const std::uint64_t before = resident_bytes();
    HEADRACE_ASSIGN(Model model, Model::open(platform, wanted, gradient));
    HEADRACE_TRY(rounds(model, platform.trace()));
    const SaveFolder folder(options_.folder, name_of(format_));
    if (options_.saves > 0) HEADRACE_TRY(saves(model, folder.path));
    add_memory(model.engine().stats().held, peak_resident_bytes() - before);
    describe(model.engine().stats());
    if (options_.saves > 0) HEADRACE_TRY(verify(folder.path));
    if (!exact_peak) report_.notes.emplace_back("the peak of memory is that of the whole process");
    return model.engine().close(std::chrono::seconds(60));
  }

 private:
  Status rounds(Model& model, const Trace* trace) {
    const std::string name = fmt::format("step.{}", name_of(format_));
    std::mt19937 random(1);
    std::vector<Round> rounds;
    std::vector<Round> gradients;
    StepSample last;
    HEADRACE_TRY(model.timed_step().status());  // warms up
    const Stats start = model.engine().stats();
    HEADRACE_ASSIGN(RawRates before, measure(disk_, options_.raw_bytes, random));
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      HEADRACE_TRY(before_round(options_.watch, name, round));
      HEADRACE_ASSIGN(const StepSample step, model.timed_step());
      HEADRACE_ASSIGN(const RawRates after, measure(disk_, options_.raw_bytes, random));
      const RawRates rates = between(std::exchange(before, after), after);
      seconds_ += step.seconds;
      idle_seconds_ += step.disk_idle_seconds;
      rounds.push_back({step.seconds, least_seconds(rates, step.read_bytes, step.written_bytes)});
      gradients.push_back({.value = step.gradient_seconds});
      last = step;
    }
    if (options_.timeline)
      report_.timelines.push_back(timeline_of(*trace, name, last.begin, last.end));
    report_.rows.push_back(time_row(name, rounds));
    report_.rows.push_back(time_row(fmt::format("gradients.{}", name_of(format_)), gradients));
    report_.rows.push_back(bytes_row(start, model.engine().stats(), format_));
    return {};
  }

  // One save after the other into the same folder. The first two find new space on the disk.
  Status saves(Model& model, const std::filesystem::path& folder) {
    const std::string name = fmt::format("save.{}", name_of(format_));
    std::mt19937 random(2);
    std::vector<Round> rounds;
    for (int i = 0; i < 2; ++i) HEADRACE_TRY(model.engine().save(folder));
    const std::uint64_t written = kCheckpointBytes * model.engine().stats().parameters;
    HEADRACE_ASSIGN(RawRates before, measure(disk_, options_.raw_bytes, random));
    for (std::size_t round = 0; round < std::min(options_.saves, options_.rounds); ++round) {
      HEADRACE_TRY(before_round(options_.watch, name, round));
      const std::uint64_t read = model.engine().stats().nvme_read_bytes;
      const auto start = std::chrono::steady_clock::now();
      HEADRACE_TRY(model.engine().save(folder));
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      const std::uint64_t read_bytes = model.engine().stats().nvme_read_bytes - read;
      HEADRACE_ASSIGN(const RawRates after, measure(disk_, options_.raw_bytes, random));
      const RawRates rates = between(std::exchange(before, after), after);
      rounds.push_back({taken.count(), least_seconds(rates, read_bytes, written)});
    }
    report_.rows.push_back(time_row(name, rounds));
    return {};
  }

  static Status verify(const std::filesystem::path& folder) {
    HEADRACE_ASSIGN(const CheckReport report, check_checkpoint(folder));
    if (report.whole()) return {};
    return Status(Code::corrupt,
                  fmt::format("{} of {} blocks of the last save are not what was saved",
                              report.bad_blocks, report.blocks));
  }

  void add_memory(const HeldBytes& held, std::uint64_t growth) {
    const std::string name = fmt::format("memory.{}", name_of(format_));
    const auto grown = static_cast<double>(growth);
    const std::uint64_t needed = held.slots + held.dram_state + held.params + held.gradients;
    report_.rows.push_back(single_row(name, "B", grown, static_cast<double>(held.dram())));
    report_.rows.push_back(single_row(name + ".needed", "B", grown, static_cast<double>(needed)));
  }

  void describe(const Stats& stats) {
    const HeldBytes& held = stats.held;
    report_.notes.push_back(fmt::format(
        "{}: {} parameters of bf16, {} units; {} of DRAM for state, {}; {}", name_of(format_),
        stats.parameters, options_.units, format_bytes(dram_bytes(options_)),
        options_.max_norm > 0 ? fmt::format("clipping at {}", options_.max_norm)
                              : std::string("no clipping"),
        stats.placement));
    report_.notes.push_back(fmt::format(
        "{}: DRAM holds slots {}, state {}, parameters {}, gradients {}, blocks for checkpoints "
        "{}; the disk had nothing in flight for {:.1f} % of the steps' time",
        name_of(format_), format_bytes(held.slots), format_bytes(held.dram_state),
        format_bytes(held.params), format_bytes(held.gradients), format_bytes(held.staging),
        100 * idle_seconds_ / seconds_));
  }

  const StepBenchOptions& options_;
  const StateFormat format_;
  RawDisk& disk_;
  Report& report_;
  double seconds_ = 0;  // of all steps measured, and of them without a transfer in flight
  double idle_seconds_ = 0;
};

// What the bound leaves out: state in DRAM is updated while the rest moves, and on many machines
// the disk and the cores share the memory's bandwidth.
Status add_disk_beside_update(const StepBenchOptions& options, RawDisk& disk, Report& report) {
  constexpr std::size_t kRounds = 5;
  HEADRACE_ASSIGN(const Pages pages, MemoryTraffic::allocate());
  std::vector<Round> rounds(kRounds);
  for (Round& round : rounds) {
    HEADRACE_ASSIGN(round.bound, bytes_per_second(disk, Direction::mixed, options.raw_bytes));
    const MemoryTraffic traffic(pages);
    HEADRACE_ASSIGN(round.value, bytes_per_second(disk, Direction::mixed, options.raw_bytes));
    round.value /= 1e9;
    round.bound /= 1e9;
  }
  report.rows.push_back(rate_row("disk.beside_update", rounds));
  return {};
}

}  // namespace

StepBenchOptions quick_step_bench() {
  StepBenchOptions options;
  options.state_bytes = 384 * kMiB;
  options.rounds = 4;
  options.saves = 2;
  options.raw_file_bytes = 512 * kMiB;
  options.raw_bytes = 256 * kMiB;
  return options;
}

double least_seconds(const RawRates& rates, std::uint64_t read_bytes, std::uint64_t written_bytes) {
  const auto read = static_cast<double>(read_bytes);
  const auto written = static_cast<double>(written_bytes);
  return std::max({read / rates.read, written / rates.write, (read + written) / rates.mixed});
}

Result<Report> bench_step(const StepBenchOptions& options) {
  HEADRACE_TRY(check_folder(options));
  Report report;
  HEADRACE_ASSIGN(RawDisk disk,
                  RawDisk::open({.folder = options.folder, .file_bytes = options.raw_file_bytes}));
  report.notes = disk.notes();
  const auto messages = std::make_shared<Messages>();
  PlatformOptions settings;
  settings.on_message = collector(messages);
  settings.trace = options.timeline || !options.trace.empty();
  HEADRACE_ASSIGN(const std::unique_ptr<Platform> platform, Platform::open(std::move(settings)));
  for (const StateFormat format : options.formats) {
    HEADRACE_TRY(FormatBench(options, format, disk, report)
                     .run(*platform)
                     .with(fmt::format("step.{}", name_of(format))));
  }
  if (options.dram_share > 0) HEADRACE_TRY(add_disk_beside_update(options, disk, report));
  if (!options.trace.empty()) HEADRACE_TRY(platform->trace()->write(options.trace));
  HEADRACE_TRY(disk.verify());
  append(report.notes, *messages);
  return report;
}

}  // namespace headrace::bench
