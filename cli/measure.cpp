#include "cli/measure.h"

#include <fmt/format.h>

#include <array>

#include "bench/adamw_bench.h"
#include "bench/raw_disk.h"
#include "bench/stream_floor.h"

namespace headrace::cli {
namespace {

constexpr std::uint64_t kFileBytes = 512 * kMiB;
constexpr int kRounds = 5;

// Bytes per second, as a median.
std::uint64_t rate_of(const std::vector<double>& gigabytes_per_second) {
  return static_cast<std::uint64_t>(bench::quartiles(gigabytes_per_second).median * 1e9);
}

Status measure_disk(PlanOptions& options) {
  HEADRACE_ASSIGN(bench::RawDisk disk,
                  bench::RawDisk::open({.folder = options.measure, .file_bytes = kFileBytes}));
  if (!disk.direct())
    return Status(Code::unavailable,
                  fmt::format("--measure {}: no direct access there, so it would measure the page "
                              "cache: choose a folder on ext4 or xfs",
                              options.measure.string()));
  constexpr std::array kDirections{bench::Direction::read, bench::Direction::write,
                                   bench::Direction::mixed};
  std::array<std::vector<double>, kDirections.size()> rates;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kDirections.size(); ++i) {
      HEADRACE_ASSIGN(const bench::RawSample sample, disk.measure(kDirections[i], kFileBytes / 2));
      rates[i].push_back(sample.gigabytes_per_second());
    }
  }
  options.nvme_read = rate_of(rates[0]);
  options.nvme_write = rate_of(rates[1]);
  options.nvme_mixed = rate_of(rates[2]);
  return {};
}

// The bytes that a lane is charged with leave out the gradient.
Status measure_update(PlanOptions& options) {
  HEADRACE_ASSIGN(const bench::Report report,
                  bench::bench_adamw({.elements = 16 * kMiB,
                                      .gradients = {ScalarType::bf16},
                                      .yardsticks = false,
                                      .rounds = 5,
                                      .at_most = std::chrono::seconds(3)}));
  const std::string prefix = fmt::format("adamw.{}.", bench::name_of(options.format));
  double best = 0;
  for (const bench::Row& row : report.rows)
    if (row.name.starts_with(prefix)) best = std::max(best, row.value);
  const auto streams = static_cast<double>(
      bench::stream_bytes_per_element(layout_of(options.format, ScalarType::bf16)));
  const double charged = bench::bytes_per_parameter(options.format) + 4;
  options.update = static_cast<std::uint64_t>(best * 1e9 * charged / streams);
  return {};
}

}  // namespace

Status measure_machine(PlanOptions& options) {
  HEADRACE_TRY(measure_disk(options).with("measuring the disk"));
  return measure_update(options).with("measuring the update");
}

}  // namespace headrace::cli
