#include "cli/bench.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "bench/compare.h"
#include "bench/html_report.h"
#include "cli/outcome.h"
#include "cli/progress.h"

namespace headrace::cli {
namespace {

std::string text_of(const bench::Report& report) {
  std::string text = bench::to_table(report.rows);
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  return text;
}

// Where the JSON has standard output for itself, notes go to standard error.
void print_notes(const bench::Report& report) {
  for (const std::string& note : report.notes) fmt::print(stderr, "note: {}\n", note);
}

// `name` is the benchmark's, `folder` the one whose disk was measured.
int finish(std::string_view name, const Result<bench::Report>& report,
           const std::filesystem::path& folder, const Output& output) {
  if (!report.ok()) return fail("bench", report.status());
  if (output.json == "-") print_notes(*report);
  const bench::Machine machine = bench::this_machine(folder);
  const int shown =
      show("bench", output.json, text_of(*report), bench::to_json(machine, report->rows));
  const int kept = keep("bench", "--html", output.html,
                        bench::to_html(fmt::format("bench {}", name), machine, *report));
  return shown != kFine ? shown : kept;
}

// With a line about where it is, and an end at the next round after Ctrl-C.
template <class Options>
Result<bench::Report> measured(Result<bench::Report> (*bench)(const Options&), Options options) {
  ProgressLine line;
  options.watch = watch_rounds(line);
  note_interrupts();
  return bench(options);
}

}  // namespace

bench::StepBenchOptions step_bench_options(const BenchStepOptions& given) {
  bench::StepBenchOptions options =
      given.quick ? bench::quick_step_bench() : bench::StepBenchOptions();
  options.folder = given.scratch;
  if (!given.formats.empty()) options.formats = given.formats;
  options.state_bytes = given.state_bytes.value_or(options.state_bytes);
  options.dram_bytes = given.dram_bytes.value_or(options.dram_bytes);
  options.dram_share = given.dram_share.value_or(options.dram_share);
  options.shard_bytes = given.shard_bytes.value_or(options.shard_bytes);
  options.units = given.units.value_or(options.units);
  options.slots = given.slots.value_or(options.slots);
  options.rounds = given.rounds.value_or(options.rounds);
  options.saves = given.saves.value_or(options.saves);
  options.max_norm = given.max_norm.value_or(options.max_norm);
  options.threads = given.threads;
  options.trace = given.trace;
  options.timeline = !given.output.html.empty();
  return options;
}

bench::TrainBenchOptions train_bench_options(const BenchStepOptions& given) {
  bench::TrainBenchOptions options =
      given.quick ? bench::quick_train_bench() : bench::TrainBenchOptions();
  options.folder = given.scratch;
  if (!given.formats.empty()) options.format = given.formats.front();
  options.state_bytes = given.state_bytes.value_or(options.state_bytes);
  options.shard_bytes = given.shard_bytes.value_or(options.shard_bytes);
  options.dram_share = given.dram_share.value_or(options.dram_share);
  options.disk_bytes_per_second =
      given.disk_bytes_per_second.value_or(options.disk_bytes_per_second);
  options.units = given.units.value_or(options.units);
  options.slots = given.slots.value_or(options.slots);
  options.steps = given.rounds.value_or(options.steps);
  options.max_norm = given.max_norm.value_or(options.max_norm);
  options.threads = given.threads;
  options.trace = given.trace;
  options.timeline = !given.output.html.empty();
  return options;
}

int run_bench_step(const BenchStepOptions& options) {
  if (options.state_bytes == std::uint64_t{0})
    return fail("bench", invalid("--size is 0: give the state to update, as in 1GiB"));
  return finish(options.train ? "step --train" : "step",
                options.train ? measured(bench::bench_train, train_bench_options(options))
                              : measured(bench::bench_step, step_bench_options(options)),
                options.scratch, options.output);
}

int run_bench_io(const bench::IoBenchOptions& options, const Output& output) {
  return finish("io", measured(bench::bench_io, options), options.folders.front(), output);
}

int run_bench_copy(const bench::CopyBenchOptions& options, const Output& output) {
  return finish("copy", measured(bench::bench_copy, options), options.folder, output);
}

int run_bench_norm(const bench::NormBenchOptions& options, const Output& output) {
  return finish("norm", measured(bench::bench_norm, options), ".", output);
}

int run_bench_adamw(const bench::AdamWBenchOptions& options, const Output& output) {
  return finish("adamw", measured(bench::bench_adamw, options), ".", output);
}

int run_bench_overhead(const bench::OverheadBenchOptions& options, const Output& output) {
  return finish("overhead", measured(bench::bench_overhead, options), ".", output);
}

int run_bench_all(const bench::AllBenchOptions& options, const Output& output) {
  bench::AllBenchOptions wanted = options;
  wanted.timeline = !output.html.empty();
  return finish("all", measured(bench::bench_all, wanted), options.folder, output);
}

int run_bench_compare(const CompareRequest& request) {
  const Result<bench::Comparison> found = bench::compare(request.a, request.b);
  if (!found.ok()) return fail("bench compare", found.status());
  fmt::print("{}", bench::to_table(*found));
  return request.fail_above && bench::regressed(*found, *request.fail_above) ? kWrong : kFine;
}

}  // namespace headrace::cli
