#include "bench/all_bench.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bench/adamw_bench.h"
#include "bench/copy_bench.h"
#include "bench/io_bench.h"
#include "bench/machine.h"
#include "bench/norm_bench.h"
#include "bench/step_bench.h"
#include "bench/verdict.h"

namespace headrace::bench {
namespace {

Status add(Report& all, Result<Report> part) {
  if (!part.ok()) return part.status();
  std::ranges::move(part->rows, std::back_inserter(all.rows));
  std::ranges::move(part->notes, std::back_inserter(all.notes));
  std::ranges::move(part->timelines, std::back_inserter(all.timelines));
  return {};
}

Result<Report> disk(const AllBenchOptions& options) {
  IoBenchOptions io = quick_io_bench();
  io.folders = {options.folder};
  io.blocks = {4 * kMiB};
  io.at_most = options.each;
  io.watch = options.watch;
  return bench_io(io);
}

Result<Report> copies(const AllBenchOptions& options) {
  CopyBenchOptions copy = quick_copy_bench();
  copy.sizes = {4 * kMiB};
  copy.at_most = options.each;
  copy.watch = options.watch;
  return bench_copy(copy);
}

Result<Report> norm(const AllBenchOptions& options) {
  NormBenchOptions norm = quick_norm_bench();
  norm.types = {ScalarType::bf16};
  norm.at_most = options.each / 2;
  norm.watch = options.watch;
  return bench_norm(norm);
}

Result<Report> update(const AllBenchOptions& options) {
  AdamWBenchOptions adamw = quick_adamw_bench();
  adamw.gradients = {ScalarType::bf16};
  adamw.yardsticks = false;
  adamw.at_most = options.each;
  adamw.watch = options.watch;
  return bench_adamw(adamw);
}

Result<Report> step(const AllBenchOptions& options) {
  if (options.state_bytes == 0) return Report();
  StepBenchOptions step = quick_step_bench();
  step.folder = options.folder;
  step.state_bytes = options.state_bytes;
  step.formats = {StateFormat::split};
  step.timeline = options.timeline;
  step.watch = options.watch;
  return bench_step(step);
}

// The fastest of the rows whose names begin so, in bytes per second; 1 where there is none.
double rate_of(const Report& report, std::string_view begin) {
  double most = 1;
  for (const Row& row : report.rows)
    if (row.name.starts_with(begin)) most = std::max(most, row.value * 1e9);
  return most;
}

MeasuredRates rates_of(const Report& report, const AllBenchOptions& options) {
  MeasuredRates rates;
  rates.disk_read = rate_of(report, "io.read.");
  rates.disk_write = rate_of(report, "io.write.");
  rates.disk_mixed = rate_of(report, "io.mixed.");
  rates.update = rate_of(report, "adamw.split.");
  rates.norm = rate_of(report, "norm.bf16.");
  rates.up = rate_of(report, "copy.up.");
  rates.down = rate_of(report, "copy.down.");
  rates.dram_bytes =
      options.dram_bytes > 0 ? options.dram_bytes : this_machine(options.folder).memory_bytes / 2;
  return rates;
}

}  // namespace

AllBenchOptions quick_all_bench() {
  AllBenchOptions options;
  options.each = std::chrono::seconds(2);
  options.state_bytes = 0;
  return options;
}

Result<Report> bench_all(const AllBenchOptions& options) {
  if (!(options.parameters >= 1))
    return Status(Code::invalid, "a model of no parameters: give one or more, as in 7B");
  Report all;
  for (const auto part : {disk, copies, norm, update, step}) HEADRACE_TRY(add(all, part(options)));
  all.notes.push_back(verdict(rates_of(all, options), options.parameters));
  return all;
}

}  // namespace headrace::bench
