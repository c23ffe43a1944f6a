#include "bench/io_bench.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "bench/io_sides.h"
#include "bench/raw_file.h"

namespace headrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kLeastRounds = 3;
constexpr std::size_t kMostRounds = 30;
constexpr std::uint64_t kInFlight = 32 * kMiB;  // where no depth is given
constexpr unsigned kMostDepth = 1024;

std::vector<Shape> shapes_of(const IoBenchOptions& options) {
  std::vector<Shape> shapes;
  for (const std::uint64_t block : options.blocks) {
    for (const unsigned depth : options.depths) shapes.push_back({block, depth});
    if (!options.depths.empty()) continue;
    const std::uint64_t depth = std::clamp<std::uint64_t>(kInFlight / block, 1, 128);
    shapes.push_back({block, static_cast<unsigned>(depth)});
  }
  return shapes;
}

Status check_shape(const Shape& shape, std::uint64_t file_bytes) {
  if (shape.block == 0 || shape.block % 4096 != 0 || shape.block > kGiB) {
    return invalid(fmt::format("blocks of {} B: take a multiple of 4096 up to 1GiB", shape.block));
  }
  if (shape.depth == 0 || shape.depth > kMostDepth) {
    return invalid(fmt::format("a depth of {}: take 1 to {}", shape.depth, kMostDepth));
  }
  if (file_bytes / shape.block < 2 || file_bytes > std::uint64_t{1} << 46) {
    return invalid(
        fmt::format("files of {} for blocks of {}: take two blocks at least, 64 TiB at "
                    "most",
                    format_bytes(file_bytes), format_bytes(shape.block)));
  }
  return {};
}

Status check(const IoBenchOptions& options) {
  if (options.folders.empty() || options.directions.empty() || options.blocks.empty()) {
    return invalid("bench io needs a folder, a direction and a block size at least");
  }
  if (options.files == 0 || options.files > 256) {
    return invalid(fmt::format("{} files in each folder: take 1 to 256", options.files));
  }
  if (!(options.seconds >= 0 && options.seconds <= 3600)) {
    return invalid(fmt::format("samples of {} s: take up to 3600", options.seconds));
  }
  if (options.seconds == 0 && options.sample_bytes == 0) {
    return invalid("samples of no bytes and no time: take some");
  }
  for (const std::uint64_t block : options.blocks) {
    if (block == 0) return check_shape({block, 1}, options.file_bytes);
  }
  for (const Shape& shape : shapes_of(options)) {
    HEADRACE_TRY(check_shape(shape, options.file_bytes));
  }
  return {};
}

// The folders of each drive, drives in the order of their first ones.
Result<std::vector<Folders>> drives_of(const Folders& folders) {
  std::vector<Folders> drives;
  std::map<dev_t, std::size_t> known;
  for (const std::filesystem::path& folder : folders) {
    struct stat found {};
    if (::stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
      return invalid(fmt::format("{} is not a folder: name one that is there", folder.string()));
    }
    const auto [at, fresh] = known.try_emplace(found.st_dev, drives.size());
    if (fresh) drives.emplace_back();
    drives[at->second].push_back(folder);
  }
  return drives;
}

Status check_drive(const IoBenchOptions& options, const Folders& drive) {
  const std::uint64_t areas = (reads_files(options) ? 1U : 0U) + (writes_files(options) ? 1U : 0U);
  const std::uint64_t files = areas * options.files * drive.size() + (options.bound ? 1 : 0);
  return check_space("bench io", drive.front(), files * options.file_bytes);
}

std::string name_of(Direction direction) {
  return direction == Direction::read ? "read" : direction == Direction::write ? "write" : "mixed";
}

std::string row_name(const IoBenchOptions& options, Direction direction, const Shape& shape) {
  const bool whole = shape.block % kMiB == 0;
  return fmt::format("io.{}.{}{}x{}{}{}", name_of(direction),
                     whole ? shape.block / kMiB : shape.block / kKiB, whole ? "MiB" : "KiB",
                     shape.depth, options.buffered ? ".buffered" : "",
                     options.backend == IoBenchBackend::posix ? ".posix" : "");
}

// All rows of one block size and depth.
class ShapeBench {
 public:
  ShapeBench(Platform& platform, const IoBenchOptions& options, const Shape& shape)
      : options_(options), shape_(shape), loops_(platform), rounds_(options.directions.size()) {
    for (const Direction direction : options.directions) tracks_.push_back({direction, 0, 0});
  }

  Status run(Platform& platform, const std::vector<Folders>& drives, SteadyClock::time_point end) {
    HEADRACE_TRY(loads_.open(platform, options_, shape_, drives));
    if (options_.bound) HEADRACE_TRY(loops_.open(options_, shape_, drives));
    HEADRACE_TRY(round(0, {.bytes = 2 * shape_.block * shape_.depth}));  // warms up
    for (std::vector<Round>& rounds : rounds_) rounds.clear();
    for (Track& track : tracks_) track.workers = 0;
    for (done_ = 0; more(end); ++done_) {
      HEADRACE_TRY(before_round(options_.watch, name(), done_));
      HEADRACE_TRY(round(done_, {.bytes = options_.sample_bytes, .seconds = options_.seconds}));
    }
    return loads_.verify();
  }

  void tell(Report& report) const {
    for (std::size_t k = 0; k < tracks_.size(); ++k) {
      const std::string name = row_name(options_, tracks_[k].direction, shape_);
      report.rows.push_back(rate_row(name, rounds_[k]));
      const double workers = tracks_[k].workers / static_cast<double>(done_);
      if (workers >= 0.0001) {
        report.notes.push_back(fmt::format(
            "{}: {:.4f} s of its CPU per GB were spent in the kernel's workers", name, workers));
      }
    }
    loads_.tell(report.notes);
    if (options_.bound) loops_.tell(report.notes);
  }

 private:
  struct Track {
    Direction direction;
    std::uint64_t bytes;  // that headrace moved on each drive in its last turn
    double workers;       // seconds per GB in the kernel's workers, summed over rounds
  };

  std::string name() const { return row_name(options_, tracks_.front().direction, shape_); }

  bool more(SteadyClock::time_point end) const {
    if (options_.rounds > 0) return done_ < options_.rounds;
    return done_ < kLeastRounds || (done_ < kMostRounds && SteadyClock::now() < end);
  }

  Status round(std::size_t number, const LoadAmount& amount) {
    for (std::size_t k = 0; k < tracks_.size(); ++k) {
      Round round;
      const bool loop_first = number % 2 == 1;
      if (loop_first) HEADRACE_TRY(loop_turn(tracks_[k], amount, round));
      HEADRACE_TRY(load_turn(tracks_[k], amount, round));
      if (!loop_first) HEADRACE_TRY(loop_turn(tracks_[k], amount, round));
      rounds_[k].push_back(round);
    }
    return {};
  }

  Status load_turn(Track& track, const LoadAmount& amount, Round& round) {
    HEADRACE_ASSIGN(const Turn turn, loads_.run(track.direction, amount));
    round.value = turn.rate;
    round.cpu = turn.cpu;
    track.workers += turn.workers;
    track.bytes = static_cast<std::uint64_t>(turn.gigabytes * 1e9) / loads_.drives();
    return {};
  }

  // As many bytes as headrace moved when only the time was given.
  Status loop_turn(const Track& track, const LoadAmount& amount, Round& round) {
    if (!options_.bound) return {};
    const std::uint64_t bytes = amount.seconds > 0 ? track.bytes : amount.bytes;
    HEADRACE_ASSIGN(const Turn turn, loops_.run(track.direction, bytes));
    round.bound = turn.rate;
    return {};
  }

  const IoBenchOptions& options_;
  const Shape shape_;
  QueueSide loads_;
  LoopSide loops_;
  std::vector<Track> tracks_;
  std::vector<std::vector<Round>> rounds_;  // of each track
  std::size_t done_ = 0;
};

}  // namespace

IoBenchOptions quick_io_bench() {
  IoBenchOptions options;
  options.file_bytes = 256 * kMiB;
  options.sample_bytes = 256 * kMiB;
  options.at_most = std::chrono::seconds(7);
  return options;
}

Result<Report> bench_io(const IoBenchOptions& options) {
  HEADRACE_TRY(check(options));
  HEADRACE_ASSIGN(const std::vector<Folders> drives, drives_of(options.folders));
  for (const Folders& drive : drives) HEADRACE_TRY(check_drive(options, drive));
  PlatformOptions settings;
  settings.trace = !options.trace.empty();
  HEADRACE_ASSIGN(const std::unique_ptr<Platform> platform, Platform::open(std::move(settings)));
  const std::vector<Shape> shapes = shapes_of(options);
  const auto start = SteadyClock::now();
  Report report;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    ShapeBench bench(*platform, options, shapes[k]);
    const auto end = start + (k + 1) * options.at_most / shapes.size();
    HEADRACE_TRY(bench.run(*platform, drives, end));
    bench.tell(report);
  }
  if (!options.trace.empty()) HEADRACE_TRY(platform->trace()->write(options.trace));
  return report;
}

}  // namespace headrace::bench
