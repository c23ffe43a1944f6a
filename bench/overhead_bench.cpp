#include "bench/overhead_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "bench/cpu_time.h"
#include "bench/model.h"
#include "io/wrapping_engine.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kShardsOfASample = 10'000;  // fewer shards take more steps
constexpr std::size_t kWarmUps = 2;
constexpr StateFormat kFormat = StateFormat::split;

// Every transfer is over when it is submitted, and no byte moves. Its files are none.
class StillEngine final : public WrappingEngine {
 public:
  explicit StillEngine(std::unique_ptr<IoEngine> inner)
      : WrappingEngine(std::move(inner), nullptr) {}

  std::string describe() const override { return "no drive"; }
  bool submit(const Transfer& transfer) override {
    hold({transfer.token, static_cast<std::int64_t>(transfer.size)}, Nanoseconds(0));
    return true;
  }
  Status register_memory(Bytes) override { return {}; }
  void unregister_memory(Bytes) override {}
  Result<OpenFile> open_file(const FileSpec& spec) override {
    return OpenFile{.handle = 0,
                    .size = spec.size,
                    .alignment = 4096,
                    .direct = true,
                    .name = spec.path.string()};
  }
  void close_file(const OpenFile&) override {}
  Result<std::uint64_t> free_bytes(const std::filesystem::path&) override {
    return std::uint64_t{1} << 60;
  }

 private:
  void completed(const Completion&) override {}
};

enum class Way : std::uint8_t { dram, nvme, simulated };
constexpr std::array kWays{Way::dram, Way::nvme, Way::simulated};

std::string_view name_of(Way way) {
  return way == Way::dram ? "dram" : way == Way::nvme ? "nvme" : "simulated";
}

Result<std::unique_ptr<Platform>> open_platform(Way way) {
  if (way == Way::simulated) {
    SimulationOptions simulation;
    simulation.disk_bytes = std::uint64_t{1} << 60;
    simulation.dry = true;
    return Platform::simulate(std::move(simulation));
  }
  PlatformOptions real;
  real.dry = true;
  real.device.memory = HostMemoryKind::addresses;
  real.wrap_engine = [](std::unique_ptr<IoEngine> inner, Clock&) {
    return std::make_unique<StillEngine>(std::move(inner));
  };
  return Platform::open(std::move(real));
}

ModelOptions model_options(const OverheadBenchOptions& options, Way way, std::size_t shards) {
  ModelOptions model;
  const std::size_t per_unit = (shards + options.units - 1) / options.units;
  model.unit_elements = per_unit * kShardElements;
  model.units = options.units;
  model.engine.format = kFormat;
  model.engine.shard_bytes =
      kShardElements * state_bytes_per_element(layout_of(kFormat, ScalarType::bf16));
  model.engine.state = way == Way::dram ? StateHome::dram : StateHome::nvme;
  if (way != Way::dram) model.engine.nvme_paths = {std::filesystem::temp_directory_path()};
  model.engine.slots = options.slots;
  model.engine.threads = 1;
  return model;
}

// Per shard and step.
struct Cost {
  double microseconds = 0;
  double cpu_microseconds = 0;  // of all threads
  double allocations = 0;
};

class Training {
 public:
  Training(Model& model, const OverheadBenchOptions& options) : model_(model), options_(options) {}

  // All of a training step but computing: leases, gradients, the update.
  Status step() {
    for (unsigned unit = 0; unit < model_.units(); ++unit)
      HEADRACE_TRY(model_.engine().acquire(UnitId{unit}).status());  // and let go
    HEADRACE_TRY(model_.put_gradients());
    HEADRACE_ASSIGN(const StepReport report, model_.step());
    return model_.engine().wait(report.done);
  }

  Result<Cost> sample(std::size_t shards) {
    const std::size_t steps = std::max<std::size_t>(1, kShardsOfASample / shards);
    const std::uint64_t before = allocations();
    const double cpu_before = cpu_seconds();
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < steps; ++i) HEADRACE_TRY(step());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const auto updates = static_cast<double>(steps * shards);
    return Cost{taken.count() * 1e6 / updates, (cpu_seconds() - cpu_before) * 1e6 / updates,
                static_cast<double>(allocations() - before) / updates};
  }

 private:
  std::uint64_t allocations() const { return options_.allocations ? options_.allocations() : 0; }

  Model& model_;
  const OverheadBenchOptions& options_;
};

Result<std::vector<Cost>> measure(const OverheadBenchOptions& options, Way way, std::size_t shards,
                                  const std::string& name) {
  HEADRACE_ASSIGN(const std::unique_ptr<Platform> platform, open_platform(way));
  const ModelOptions wanted = model_options(options, way, shards);
  const std::vector<std::uint16_t> gradient(wanted.unit_elements);  // never read
  HEADRACE_ASSIGN(Model model, Model::open_dry(*platform, wanted,
                                               view_of(std::span<const std::uint16_t>(gradient))));
  const std::size_t made = model.engine().stats().shards;
  Training training(model, options);
  for (std::size_t i = 0; i < kWarmUps; ++i) HEADRACE_TRY(training.step());
  std::vector<Cost> costs;
  for (std::size_t round = 0; round < options.rounds; ++round) {
    HEADRACE_TRY(before_round(options.watch, name, round));
    HEADRACE_ASSIGN(const Cost cost, training.sample(made));
    costs.push_back(cost);
  }
  HEADRACE_TRY(model.engine().close(std::chrono::seconds(60)));
  return costs;
}

Row row_of(std::string name, std::string unit, const std::vector<Cost>& costs, double Cost::*what,
           double bound) {
  std::vector<Round> rounds;
  for (const Cost& cost : costs) rounds.push_back({cost.*what, bound});
  Row row = time_row(std::move(name), rounds);
  row.unit = std::move(unit);
  return row;
}

Status add_rows(const OverheadBenchOptions& options, Way way, Report& report) {
  const std::string way_name = fmt::format("overhead.{}", name_of(way));
  std::vector<Row> times;
  std::vector<Row> cpu_times;
  std::vector<Row> counts;
  for (const std::size_t shards : options.shards) {
    const std::string name = fmt::format("{}.{}", way_name, shards);
    const Result<std::vector<Cost>> costs = measure(options, way, shards, name);
    HEADRACE_TRY(costs.status().with(name));
    times.push_back(row_of(name, "us", *costs, &Cost::microseconds, kOverheadBound));
    cpu_times.push_back(row_of(name + ".cpu", "us", *costs, &Cost::cpu_microseconds, 0));
    if (options.allocations)
      counts.push_back(row_of(name + ".allocations", "", *costs, &Cost::allocations, 0));
  }
  // CPU time, which other processes hardly disturb: of the most shards beside that of the fewest.
  const Row linear =
      single_row(way_name + ".linear", "us", cpu_times.back().value, cpu_times.front().value);
  for (const std::vector<Row>* rows : {&times, &cpu_times, &counts})
    report.rows.insert(report.rows.end(), rows->begin(), rows->end());
  report.rows.push_back(linear);
  return {};
}

Status check(const OverheadBenchOptions& options) {
  const auto wrong = [](const char* why) { return Status(Code::invalid, why); };
  if (options.units == 0) return wrong("no units: take one or more");
  if (options.rounds == 0) return wrong("no rounds: take one or more");
  if (options.shards.empty()) return wrong("no number of shards: give one or more");
  for (const std::size_t shards : options.shards)
    if (shards == 0 || shards > 10'000'000)
      return Status(Code::invalid, fmt::format("{} shards: take 1 to 10 000 000", shards));
  if (!std::ranges::is_sorted(options.shards)) return wrong("numbers of shards must not fall");
  return {};
}

}  // namespace

OverheadBenchOptions quick_overhead_bench() {
  OverheadBenchOptions options;
  options.shards = {1'000, 10'000};
  options.rounds = 3;
  return options;
}

Result<Report> bench_overhead(const OverheadBenchOptions& options) {
  HEADRACE_TRY(check(options));
  Report report;
  for (const Way way : kWays) HEADRACE_TRY(add_rows(options, way, report));
  report.notes.push_back(fmt::format(
      "{} units, {} elements a shard, {} slots; no bytes: tasks are not run, transfers are over at "
      "once",
      options.units, kShardElements, options.slots));
  return report;
}

}  // namespace headrace::bench
