#include "bench/io_sides.h"

#include <algorithm>
#include <initializer_list>
#include <thread>
#include <utility>

#include "bench/cpu_time.h"

namespace headrace::bench {
namespace {

bool among(const IoBenchOptions& options, std::initializer_list<Direction> wanted) {
  return std::find_first_of(options.directions.begin(), options.directions.end(), wanted.begin(),
                            wanted.end()) != options.directions.end();
}

Turn turn_of(const std::vector<RawSample>& samples, double cpu, double workers) {
  Turn turn;
  double seconds = 0;
  for (const RawSample& sample : samples) {
    turn.gigabytes += static_cast<double>(sample.read_bytes + sample.written_bytes) / 1e9;
    seconds = std::max(seconds, sample.seconds);
  }
  turn.rate = turn.gigabytes / seconds;
  turn.cpu = cpu / turn.gigabytes;
  turn.workers = workers / turn.gigabytes;
  return turn;
}

void add_notes(std::vector<std::string>& notes, const std::vector<std::string>& more) {
  for (const std::string& note : more) {
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
}

}  // namespace

bool reads_files(const IoBenchOptions& options) {
  return among(options, {Direction::read, Direction::mixed});
}

bool writes_files(const IoBenchOptions& options) {
  return among(options, {Direction::write, Direction::mixed});
}

Status QueueSide::open(Platform& platform, const IoBenchOptions& options, const Shape& shape,
                       const std::vector<Folders>& drives) {
  for (const Folders& folders : drives) {
    HEADRACE_ASSIGN(
        QueueLoad load,
        QueueLoad::open(platform, {.folders = folders,
                                   .files = options.files,
                                   .file_bytes = round_down(options.file_bytes, shape.block),
                                   .block_bytes = shape.block,
                                   .depth = shape.depth,
                                   .reads = reads_files(options),
                                   .writes = writes_files(options),
                                   .direct = !options.buffered,
                                   .posix = options.backend == IoBenchBackend::posix,
                                   .seed = options.seed}));
    loads_.push_back(std::move(load));
  }
  return {};
}

Result<Turn> QueueSide::run(Direction direction, const LoadAmount& amount) {
  for (QueueLoad& load : loads_) load.prepare(direction);
  const double cpu = cpu_seconds();
  const double workers = kernel_worker_seconds();
  HEADRACE_ASSIGN(const std::vector<RawSample> samples, run_all(direction, amount));
  const Turn turn = turn_of(samples, cpu_seconds() - cpu, kernel_worker_seconds() - workers);
  for (QueueLoad& load : loads_) HEADRACE_TRY(load.check());
  return turn;
}

Result<std::vector<RawSample>> QueueSide::run_all(Direction direction, const LoadAmount& amount) {
  std::vector<std::optional<Result<RawSample>>> found(loads_.size());
  std::vector<std::thread> threads;
  for (std::size_t k = 1; k < loads_.size(); ++k) {
    threads.emplace_back([load = &loads_[k], result = &found[k], direction, amount] {
      *result = load->run(direction, amount);
    });
  }
  found[0] = loads_[0].run(direction, amount);
  for (std::thread& thread : threads) thread.join();
  std::vector<RawSample> samples;
  for (const auto& result : found) {
    HEADRACE_TRY(result->status());
    samples.push_back(result->value());
  }
  return samples;
}

Status QueueSide::verify() {
  for (QueueLoad& load : loads_) HEADRACE_TRY(load.verify());
  return {};
}

void QueueSide::tell(std::vector<std::string>& notes) const {
  for (const QueueLoad& load : loads_) add_notes(notes, load.notes());
}

LoopSide::~LoopSide() {
  on_each([](Loop& loop) { return loop.disk.reset(), Status(); }).ok();
}

Status LoopSide::open(const IoBenchOptions& options, const Shape& shape,
                      const std::vector<Folders>& drives) {
  for (const Folders& folders : drives) {
    loops_.push_back(std::make_unique<Loop>());
    loops_.back()->options = {.folder = folders.front(),
                              .file_bytes = round_down(options.file_bytes, shape.block),
                              .block_bytes = shape.block,
                              .in_flight = shape.depth,
                              .direct = !options.buffered,
                              .seed = options.seed + 1};
    loops_.back()->lane = Lane::threaded({.name = "plain-loop"});
  }
  return on_each([](Loop& loop) {
    HEADRACE_ASSIGN(loop.disk, RawDisk::open(loop.options));
    return Status();
  });
}

Result<Turn> LoopSide::run(Direction direction, std::uint64_t bytes) {
  const double cpu = cpu_seconds();
  HEADRACE_TRY(on_each([direction, bytes](Loop& loop) {
    HEADRACE_ASSIGN(loop.sample, loop.disk->measure(direction, bytes));
    return Status();
  }));
  std::vector<RawSample> samples;
  for (const auto& loop : loops_) samples.push_back(loop->sample);
  return turn_of(samples, cpu_seconds() - cpu, 0);
}

void LoopSide::tell(std::vector<std::string>& notes) const {
  for (const auto& loop : loops_) add_notes(notes, loop->disk->notes());
}

Status LoopSide::on_each(const std::function<Status(Loop&)>& work) {
  std::vector<Event> events;
  for (const auto& loop : loops_) {
    events.push_back(loop->lane->run({.body = [work, at = loop.get()] { return work(*at); }}));
  }
  const Event all = Event::all(events);
  HEADRACE_TRY(platform_.wait(all.over(), kForever));
  return all.status();
}

}  // namespace headrace::bench
