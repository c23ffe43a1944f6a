#include "cli/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/model.h"
#include "cli/measure.h"
#include "cli/outcome.h"

namespace headrace::cli {
namespace {

using bench::Model;
using bench::ModelOptions;
using bench::StepParts;
using bench::Training;

constexpr double kHidden = 0.02;  // of a step: less is noise of the schedule
constexpr std::uint64_t kEnough = std::uint64_t{1} << 60;  // bytes: only budgets set limits

bool positive(double value) { return std::isfinite(value) && value > 0; }

Status check_seconds(const char* name, const std::optional<double>& seconds) {
  if (!seconds || positive(*seconds)) return {};
  return invalid(fmt::format("{} is {}: give seconds, above 0", name, *seconds));
}

Status check(const PlanOptions& options) {
  if (options.parameters == 0) return invalid("--params is 0: give the model's size, as in 7e9");
  if (options.units == 0 || options.units > 4096)
    return invalid(fmt::format("--units is {}: 1 to 4096 layers", options.units));
  if (options.micro_batches == 0 || options.micro_batches > 1000)
    return invalid(fmt::format("--accumulate is {}: 1 to 1000", options.micro_batches));
  if (!positive(options.tokens))
    return invalid(fmt::format("--tokens is {}: it must be positive", options.tokens));
  if (!positive(options.flops))
    return invalid(fmt::format("--flops is {}: it must be positive", options.flops));
  HEADRACE_TRY(check_seconds("--forward", options.forward));
  HEADRACE_TRY(check_seconds("--backward", options.backward));
  if (options.nvme_read == 0 || options.nvme_write == 0)
    return invalid("--nvme-bandwidth must be positive");
  if (options.update == 0) return invalid("--memory-bandwidth must be positive");
  return {};
}

ModelOptions model_options(const PlanOptions& options, std::uint64_t dram_bytes) {
  ModelOptions model;
  model.units = options.units;
  model.unit_elements =
      round_up((options.parameters + options.units - 1) / options.units, kShardElements);
  model.accumulates = options.micro_batches > 1;
  model.engine.format = options.format;
  model.engine.dram_bytes = dram_bytes;
  model.engine.hbm_bytes = options.hbm_bytes;
  model.engine.nvme_paths = {"/nvme"};
  model.engine.shard_bytes = options.shard_bytes;
  model.engine.slots = options.slots;
  model.engine.deadline = std::chrono::hours(24 * 365);
  return model;
}

// The simulated disk is one server; its rates for each way are such that as many bytes of both
// take what the mixed rate says.
double seconds_per_byte(const PlanOptions& options, std::uint64_t rate) {
  const double alone = 1.0 / static_cast<double>(rate);
  if (options.nvme_mixed == 0) return alone;
  const double both =
      1.0 / static_cast<double>(options.nvme_read) + 1.0 / static_cast<double>(options.nvme_write);
  return alone * 2.0 / static_cast<double>(options.nvme_mixed) / both;
}

std::uint64_t rate_of(double seconds_per_byte) {
  return static_cast<std::uint64_t>(std::max(1.0, 1.0 / seconds_per_byte));
}

std::unique_ptr<Platform> machine(const PlanOptions& options) {
  SimulationOptions simulation;
  simulation.dry = true;
  simulation.disk_read_bytes_per_second = rate_of(seconds_per_byte(options, options.nvme_read));
  simulation.disk_write_bytes_per_second = rate_of(seconds_per_byte(options, options.nvme_write));
  simulation.update_bytes_per_second = options.update;
  simulation.disk_bytes = kEnough;
  simulation.device_bytes = kEnough;
  return Platform::simulate(std::move(simulation));
}

StepParts parts_of(const PlanOptions& options, const Stats& stats) {
  const auto parameters = static_cast<double>(stats.padded_parameters);
  const double state = bench::bytes_per_parameter(options.format) / 2;
  StepParts parts;
  const double work = 2 * static_cast<double>(options.parameters) * options.tokens / options.flops;
  parts.forward = options.forward.value_or(work);
  parts.backward = options.backward.value_or(2 * parts.forward);
  parts.io = parameters * state *
             (seconds_per_byte(options, options.nvme_read) +
              seconds_per_byte(options, options.nvme_write));
  parts.update = parameters * (2 * state + 2 * size_of(ScalarType::bf16)) /
                 static_cast<double>(options.update);
  parts.in_dram = 1 - static_cast<double>(stats.nvme_parameters) / parameters;
  if (stats.nvme_shards > 0)
    parts.slots_of_shards =
        std::min(1.0, static_cast<double>(options.slots) / static_cast<double>(stats.nvme_shards));
  parts.units = options.units;
  parts.micro_batches = options.micro_batches;
  return parts;
}

Nanoseconds busy_of(const Stats& stats, const std::string& name) {
  for (const Usage& usage : stats.resources)
    if (usage.name == name) return usage.busy;
  return Nanoseconds(0);
}

// The busiest of what the step used; "compute" if the step takes no longer than that.
Limit limit_of(const Stats& before, const Stats& after, double step, double compute) {
  Limit limit{"compute", compute / step};
  if (step - compute <= kHidden * step) return limit;
  limit = {};
  for (const Usage& usage : after.resources) {
    if (usage.name == "compute") continue;
    const double busy = bench::seconds_of(usage.busy - busy_of(before, usage.name)) / step;
    if (busy > limit.busy) limit = {usage.name, busy};
  }
  return limit;
}

// The second of two steps, as each one after it is.
Status run_steps(Training& training, Model& model, PlanReport& report) {
  HEADRACE_TRY(training.step().status());
  HEADRACE_TRY(training.step().status());
  const Stats before = model.engine().stats();
  HEADRACE_ASSIGN(report.step_seconds, training.step());
  const Stats after = model.engine().stats();
  const StepParts& parts = report.parts;
  const double compute = parts.micro_batches * (parts.forward + parts.backward);
  report.limit = limit_of(before, after, report.step_seconds, compute);
  report.read_bytes = after.nvme_read_bytes - before.nvme_read_bytes;
  report.written_bytes = after.nvme_written_bytes - before.nvme_written_bytes;
  const double alone = std::max(parts.io * (1 - parts.in_dram), parts.update);
  report.hidden = std::clamp(1 - (report.step_seconds - compute) / alone, 0.0, 1.0);
  return training.finish();
}

Status dry_run(std::uint64_t dram_bytes, PlanReport& report) {
  const std::unique_ptr<Platform> platform = machine(report.options);
  const ModelOptions wanted = model_options(report.options, dram_bytes);
  HEADRACE_ASSIGN(const Memory gradient,
                  platform->device().allocate(Home::host, wanted.unit_elements * 2));
  HEADRACE_ASSIGN(Model model, Model::open_dry(*platform, wanted, gradient.view()));
  report.stats = model.engine().stats();
  report.parts = parts_of(report.options, report.stats);
  report.best_seconds = bench::best_step_seconds(report.parts);
  Training training(*platform, model,
                    {.forward = report.parts.forward,
                     .backward = report.parts.backward,
                     .micro_batches = report.parts.micro_batches});
  HEADRACE_TRY(run_steps(training, model, report));
  return model.engine().close(std::chrono::hours(1));
}

// Tried by a dry run of its own.
Status find_what_hides(PlanReport& report) {
  const HeldBytes& held = report.stats.held;
  report.hiding_share = bench::share_that_hides(report.parts);
  const auto state =
      static_cast<double>(held.dram_state + held.hbm_state + held.nvme_state) * report.hiding_share;
  report.hiding_bytes = held.slots + round_up(static_cast<std::uint64_t>(state), kMiB);
  report.hiding_seconds = report.step_seconds;
  report.hiding_limit = report.limit;
  if (report.parts.in_dram >= report.hiding_share) return {};
  PlanReport other{.options = report.options};
  HEADRACE_TRY(dry_run(report.hiding_bytes, other));
  report.hiding_seconds = other.step_seconds;
  report.hiding_limit = other.limit;
  return {};
}

}  // namespace

Result<PlanReport> make_plan(const PlanOptions& options) {
  HEADRACE_TRY(check(options));
  PlanReport report{.options = options};
  if (!options.measure.empty()) HEADRACE_TRY(measure_machine(report.options));
  HEADRACE_TRY(dry_run(options.dram_bytes, report));
  if (report.stats.nvme_shards > 0) HEADRACE_TRY(find_what_hides(report));
  return report;
}

double written_a_day(const PlanReport& report) {
  constexpr double kSecondsOfADay = 24 * 60 * 60;
  return static_cast<double>(report.written_bytes) * kSecondsOfADay / report.step_seconds;
}

double days_of_endurance(const PlanReport& report) {
  return static_cast<double>(report.options.rated_endurance) / written_a_day(report);
}

int run_plan(const PlanOptions& options) {
  const Result<PlanReport> report = make_plan(options);
  if (!report.ok()) return fail("plan", report.status());
  return show("plan", options.json, text_of(*report), json_of(*report));
}

}  // namespace headrace::cli
