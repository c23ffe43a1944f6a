#include "cli/bench.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "bench/adamw_bench.h"

namespace headrace::cli {
namespace {

constexpr int kFine = 0, kWrong = 1, kUsage = 2, kLacking = 3;

int code_of(const Status& status) {
  switch (status.code()) {
    case Code::ok:
      return kFine;
    case Code::invalid:
      return kUsage;
    case Code::out_of_memory:
    case Code::out_of_space:
    case Code::unavailable:
      return kLacking;
    default:
      return kWrong;
  }
}

bool write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

// Notes go to standard error where the JSON has standard output for itself.
void print_notes(const bench::Report& report, std::FILE* to) {
  for (const std::string& note : report.notes) fmt::print(to, "note: {}\n", note);
}

// Shows a finished report; `folder` is the one whose disk was measured.
int show(const Result<bench::Report>& report, const std::filesystem::path& folder,
         const std::filesystem::path& json) {
  if (!report.ok()) {
    fmt::print(stderr, "headrace bench: {}\n", report.status().to_string());
    return code_of(report.status());
  }
  const std::string text = bench::to_json(bench::this_machine(folder), report->rows);
  if (json == "-") {
    fmt::print("{}", text);
    print_notes(*report, stderr);
    return kFine;
  }
  fmt::print("{}", bench::to_table(report->rows));
  print_notes(*report, stdout);
  if (json.empty() || write(json, text)) return kFine;
  fmt::print(stderr, "headrace bench: cannot write {}: choose another --json FILE\n",
             json.string());
  return kUsage;
}

}  // namespace

bench::StepBenchOptions step_bench_options(const BenchStepOptions& given) {
  bench::StepBenchOptions options =
      given.quick ? bench::quick_step_bench() : bench::StepBenchOptions();
  options.folder = given.scratch;
  if (!given.formats.empty()) options.formats = given.formats;
  options.state_bytes = given.state_bytes.value_or(options.state_bytes);
  options.dram_bytes = given.dram_bytes.value_or(options.dram_bytes);
  options.shard_bytes = given.shard_bytes.value_or(options.shard_bytes);
  options.units = given.units.value_or(options.units);
  options.slots = given.slots.value_or(options.slots);
  options.rounds = given.rounds.value_or(options.rounds);
  options.max_norm = given.max_norm.value_or(options.max_norm);
  options.threads = given.threads;
  return options;
}

bench::TrainBenchOptions train_bench_options(const BenchStepOptions& given) {
  bench::TrainBenchOptions options =
      given.quick ? bench::quick_train_bench() : bench::TrainBenchOptions();
  options.folder = given.scratch;
  if (!given.formats.empty()) options.format = given.formats.front();
  options.state_bytes = given.state_bytes.value_or(options.state_bytes);
  options.shard_bytes = given.shard_bytes.value_or(options.shard_bytes);
  options.disk_bytes_per_second =
      given.disk_bytes_per_second.value_or(options.disk_bytes_per_second);
  options.units = given.units.value_or(options.units);
  options.slots = given.slots.value_or(options.slots);
  options.steps = given.rounds.value_or(options.steps);
  options.max_norm = given.max_norm.value_or(options.max_norm);
  options.threads = given.threads;
  return options;
}

int run_bench_step(const BenchStepOptions& options) {
  return show(options.train ? bench::bench_train(train_bench_options(options))
                            : bench::bench_step(step_bench_options(options)),
              options.scratch, options.json);
}

int run_bench_adamw(const BenchAdamWOptions& options) {
  const bench::AdamWBenchOptions measured =
      options.quick ? bench::quick_adamw_bench() : bench::AdamWBenchOptions();
  return show(bench::bench_adamw(measured), ".", options.json);
}

}  // namespace headrace::cli
