#include "bench/copy_bench.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "bench/copy_paths.h"
#include "bench/cpu_time.h"
#include "bench/model.h"
#include "bench/raw_disk.h"
#include "bench/raw_file.h"
#include "optim_cpu/team.h"

namespace headrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::array kUp{Path{Place::host, Place::device}};
constexpr std::array kDown{Path{Place::device, Place::host}};
constexpr std::array kBoth{kUp[0], kDown[0]};
constexpr std::array kHost{Path{Place::host, Place::host}};
constexpr std::array kNvmeUp{Path{Place::nvme, Place::device}};
constexpr std::array kNvmeDown{Path{Place::device, Place::nvme}};

Status check(const CopyBenchOptions& options) {
  if (options.sizes.empty() || options.rounds == 0 || options.threads < 0 || options.bytes == 0 ||
      options.raw_bytes == 0) {
    return {Code::invalid, fmt::format("{} sizes, {} rounds, {} threads, samples of {} and {} B: "
                                       "take one at least of each, and all threads with 0",
                                       options.sizes.size(), options.rounds, options.threads,
                                       options.bytes, options.raw_bytes)};
  }
  for (const std::uint64_t size : options.sizes) {
    if (size != 0 && size % kPageBytes == 0 && options.bytes % size == 0) continue;
    return {Code::invalid, fmt::format("moves of {} B in samples of {}: take a multiple of {} that "
                                       "divides the sample",
                                       size, options.bytes, kPageBytes)};
  }
  return {};
}

std::string label(std::uint64_t size) {
  return size % kMiB == 0 ? fmt::format("{}MiB", size / kMiB) : fmt::format("{}KiB", size / kKiB);
}

class Bench {
 public:
  Bench(const CopyBenchOptions& options, CopyPaths& paths, std::optional<RawDisk> disk)
      : options_(options), paths_(paths), disk_(std::move(disk)) {}

  Result<Report> run() {
    const auto begin = SteadyClock::now();
    HEADRACE_TRY(round(0));  // warms up
    auto longest = SteadyClock::now() - begin;
    rounds_.clear();
    names_.clear();
    for (std::size_t done = 0; !verify_; ++done) {
      HEADRACE_TRY(before_round(options_.watch, "copies", done));
      const auto start = SteadyClock::now();
      verify_ = done + 1 == options_.rounds || start + 2 * longest > begin + options_.at_most;
      HEADRACE_TRY(round(done));
      longest = std::max(longest, SteadyClock::now() - start);
    }
    if (disk_) HEADRACE_TRY(disk_->verify());
    return report();
  }

 private:
  // Every size once, beginning one further than the last time.
  Status round(std::size_t index) {
    for (std::size_t i = 0; i < options_.sizes.size(); ++i) {
      HEADRACE_TRY(measure(options_.sizes[(i + index) % options_.sizes.size()]));
    }
    const double seconds = paths_.plain_team(threads());
    keep("copy.team", {.value = gigabytes() / seconds});
    return {};
  }

  Status measure(std::uint64_t size) {
    const double up = gigabytes() / paths_.plain(kUp, size);
    HEADRACE_TRY(measure("up", kUp, size, up));
    const double down = gigabytes() / paths_.plain(kDown, size);
    HEADRACE_TRY(measure("down", kDown, size, down));
    HEADRACE_TRY(measure("both", kBoth, size, 2 * gigabytes() / paths_.plain(kBoth, size)));
    HEADRACE_TRY(measure("host", kHost, size, gigabytes() / paths_.plain(kHost, size)));
    if (!disk_) return {};
    HEADRACE_ASSIGN(const RawSample read, disk_->measure(Direction::read, options_.raw_bytes));
    HEADRACE_TRY(measure("nvme_up", kNvmeUp, size, std::min(up, read.gigabytes_per_second())));
    HEADRACE_ASSIGN(const RawSample write, disk_->measure(Direction::write, options_.raw_bytes));
    return measure("nvme_down", kNvmeDown, size, std::min(down, write.gigabytes_per_second()));
  }

  Status measure(std::string_view what, std::span<const Path> paths, std::uint64_t size,
                 double bound) {
    const std::string name = fmt::format("copy.{}.{}", what, label(size));
    const double cpu = cpu_seconds();
    Result<double> seconds = paths_.move(paths, size);
    HEADRACE_TRY(seconds.status().with(name));
    const double moved = gigabytes() * static_cast<double>(paths.size());
    keep(name, {moved / *seconds, bound, (cpu_seconds() - cpu) / moved});
    if (!verify_) return {};
    // The host's own target first: verifying another goes over it.
    std::vector<Path> order(paths.begin(), paths.end());
    std::ranges::sort(order, {}, &Path::to);
    for (const Path& path : order) HEADRACE_TRY(paths_.verify(path.to).with(name));
    return {};
  }

  void keep(const std::string& name, const Round& round) {
    if (rounds_[name].empty()) names_.push_back(name);
    rounds_[name].push_back(round);
  }

  Report report() const {
    Report report;
    for (const std::string& name : names_) {
      report.rows.push_back(rate_row(name, rounds_.at(name)));
    }
    if (disk_) report.notes = disk_->notes();
    return report;
  }

  double gigabytes() const { return static_cast<double>(options_.bytes) * 1e-9; }
  int threads() const { return options_.threads > 0 ? options_.threads : affinity_threads(); }

  const CopyBenchOptions& options_;
  CopyPaths& paths_;
  std::optional<RawDisk> disk_;
  bool verify_ = false;  // in the last round
  std::map<std::string, std::vector<Round>> rounds_;
  std::vector<std::string> names_;
};

}  // namespace

CopyBenchOptions quick_copy_bench() {
  CopyBenchOptions options;
  options.bytes = 128 * kMiB;
  options.sizes = {kMiB, 4 * kMiB, 32 * kMiB};
  options.rounds = 5;
  options.at_most = std::chrono::seconds(8);
  options.raw_file_bytes = 256 * kMiB;
  options.raw_bytes = 64 * kMiB;
  return options;
}

Result<Report> bench_copy(const CopyBenchOptions& options) {
  HEADRACE_TRY(check(options));
  const auto messages = std::make_shared<Messages>();
  PlatformOptions settings;
  settings.on_message = collector(messages);
  settings.trace = !options.trace.empty();
  HEADRACE_ASSIGN(const std::unique_ptr<Platform> platform, Platform::open(std::move(settings)));
  std::optional<RawDisk> disk;
  if (!options.folder.empty()) {
    HEADRACE_TRY(
        check_space("bench copy", options.folder, options.raw_file_bytes + 2 * options.bytes));
    HEADRACE_ASSIGN(
        disk, RawDisk::open({.folder = options.folder, .file_bytes = options.raw_file_bytes}));
  }
  HEADRACE_ASSIGN(
      const std::unique_ptr<CopyPaths> paths,
      CopyPaths::open(*platform, options.bytes, std::ranges::max(options.sizes), options.folder));
  HEADRACE_ASSIGN(Report report, Bench(options, *paths, std::move(disk)).run());
  if (!options.trace.empty()) HEADRACE_TRY(platform->trace()->write(options.trace));
  report.notes.push_back(fmt::format("the device: {}", platform->device().describe()));
  append(report.notes, *messages);
  return report;
}

}  // namespace headrace::bench
