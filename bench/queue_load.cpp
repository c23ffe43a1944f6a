#include "bench/queue_load.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "bench/huge_pages.h"
#include "bench/raw_file.h"
#include "io/host_memory.h"
#include "io/memory.h"

namespace headrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr Nanoseconds kPatience = std::chrono::seconds(60);  // for a part of a run
constexpr auto kBatchTime = std::chrono::milliseconds(30);   // two to three batches are queued
constexpr std::uint64_t kMostBatch = 16384;                  // requests
constexpr std::uint64_t kSpare = 32 * kMiB;                  // of buffers beyond the depth

// One buffer, and the last request that uses it; each request follows the one before it.
struct Slot {
  Bytes buffer;
  std::uint64_t block = 0;
  Event last;
  bool used = false;
};

// The files and buffers of one direction. Blocks lie round robin over the files.
struct Area {
  std::vector<File> files;
  std::vector<Slot> slots;
  std::vector<Mark> marks;  // what each block holds, once all its requests are over
  std::vector<Event> last;  // of each block
  std::uint64_t queued = 0;
  std::uint64_t span = 0;  // blocks that the running load goes through
};

// Enough that there is always one ready when another has ended; odd, so that a block is not always
// written from the same buffer.
unsigned slots_for(const QueueLoadOptions& options) {
  const std::uint64_t spare = std::max<std::uint64_t>(2, kSpare / options.block_bytes);
  return (options.depth + static_cast<unsigned>(std::min<std::uint64_t>(options.depth, spare))) | 1;
}

unsigned areas_of(const QueueLoadOptions& options) {
  return (options.reads ? 1U : 0U) + (options.writes ? 1U : 0U);
}

Result<Memory> buffers_for(Platform& platform, const QueueLoadOptions& options) {
  const std::uint64_t size =
      std::uint64_t{slots_for(options)} * areas_of(options) * options.block_bytes;
  if (const std::uint64_t left = platform.memory_left().bytes; size > left) {
    return Status(Code::out_of_memory,
                  fmt::format("{} of buffers for depth {}, {} of memory left: take smaller blocks "
                              "or less depth",
                              format_bytes(size), options.depth, format_bytes(left)));
  }
  // Whole huge pages: a kernel that registers anything else keeps a list of all small ones.
  HEADRACE_ASSIGN(const Bytes pages, map_pages(round_up(size, kHugePageBytes), -1));
  return Memory(pages, [](MemView view) { unmap_pages(view.bytes()); });
}

Result<std::unique_ptr<IoQueue>> queue_for(Platform& platform, const QueueLoadOptions& options) {
  IoQueueOptions limits;
  limits.name = "bench-io";
  limits.chunk_bytes = options.block_bytes;
  limits.in_flight_bytes = options.depth * options.block_bytes;
  limits.in_flight_chunks = options.depth;
  limits.trace = platform.trace();
  if (options.posix) {
    return IoQueue::open(posix_engine({.threads = static_cast<int>(options.depth)}), limits);
  }
  HEADRACE_ASSIGN(auto engine,
                  uring_engine({.entries = std::max(256U, std::bit_ceil(2 * options.depth))}));
  return IoQueue::open(std::move(engine), limits);
}

}  // namespace

struct QueueLoad::State {
  // constant after open
  Platform& platform;
  const QueueLoadOptions options;
  const std::uint64_t blocks;  // of each area
  Pages pattern;               // what every block holds but for its marks
  Memory memory;               // all buffers; goes after the queue
  std::unique_ptr<IoQueue> queue;
  std::vector<std::string> notes;
  // changed by runs
  Area reads;
  Area writes;
  std::uint64_t runs = 1;      // the first one fills
  std::deque<Event> ahead;     // the last requests of the batches that are queued
  std::uint64_t batch = 0;     // requests of one
  std::uint64_t in_batch = 0;  // of the one that is being queued
  SteadyClock::time_point batch_over;
  bool let_go = true;  // of memory: false when the kernel may still have it

  State(Platform& shared, const QueueLoadOptions& chosen, Pages random, Memory buffers,
        std::unique_ptr<IoQueue> opened)
      : platform(shared),
        options(chosen),
        blocks(chosen.file_bytes / chosen.block_bytes * chosen.files * chosen.folders.size()),
        pattern(std::move(random)),
        memory(std::move(buffers)),
        queue(std::move(opened)) {}
  ~State() {
    queue.reset();
    if (!let_go) memory.abandon();
  }

  Status start();
  Status open_files(Area& area);
  void give_slots(Area& area, std::size_t first);
  Status register_buffers();
  Status fill(Area& area);
  Status wait(const Event& event);
  Status wait_for_all();
  void request(Area& area, bool write);
  Status throttle(const Event& last);
  void prepare(Direction direction);
  Status queue_all(Direction direction, const LoadAmount& amount);
  Status compare(ConstBytes found, std::uint64_t block, const Mark& mark) const;
  Status compare_buffers() const;
  Status read_back(const Area& area);
  Status wrong(std::uint64_t block) const;
  std::uint64_t offset_of(std::uint64_t block, const Area& area) const {
    return block / area.files.size() * options.block_bytes;
  }
};

Status QueueLoad::State::start() {
  fill_random(pattern.bytes().first(options.block_bytes), options.seed);
  if (options.reads) give_slots(reads, 0);
  if (options.writes) give_slots(writes, reads.slots.size());
  HEADRACE_TRY(open_files(reads));
  HEADRACE_TRY(open_files(writes));
  HEADRACE_TRY(register_buffers());
  if (huge_page_share(memory.view().bytes()) < 0.9) {
    notes.emplace_back("no huge pages for the buffers: lower rates, more CPU per byte");
  }
  HEADRACE_TRY(fill(reads));
  return fill(writes);
}

void QueueLoad::State::give_slots(Area& area, std::size_t first) {
  const unsigned count = slots_for(options);
  for (std::size_t k = 0; k < count; ++k) {
    const Bytes buffer =
        memory.view().bytes().subspan((first + k) * options.block_bytes, options.block_bytes);
    std::memcpy(buffer.data(), pattern.bytes().data(), buffer.size());
    area.slots.push_back({.buffer = buffer});
  }
}

Status QueueLoad::State::open_files(Area& area) {
  if (area.slots.empty()) return {};
  for (const std::filesystem::path& folder : options.folders) {
    for (unsigned k = 0; k < options.files; ++k) {
      FileSpec spec;
      spec.path = folder;
      spec.size = options.file_bytes;
      spec.direct = options.direct;
      HEADRACE_ASSIGN(File file, queue->open_file(spec));
      if (options.direct && !file.info().direct) {
        return {Code::unavailable,
                fmt::format("{} has no direct access, so its rates would be those of the page "
                            "cache: name a folder on a disk, or ask for buffered rates",
                            folder.string())};
      }
      area.files.push_back(std::move(file));
    }
  }
  area.last.resize(blocks);
  return {};
}

Status QueueLoad::State::register_buffers() {
  if (options.posix) return {};
  const Event registered = queue->register_memory(memory.view().bytes());
  HEADRACE_TRY(wait(registered));
  if (!registered.status().ok()) notes.emplace_back(registered.status().message());
  return {};
}

// Batch by batch, as each block has marks of its own.
Status QueueLoad::State::fill(Area& area) {
  if (area.slots.empty()) return {};
  area.queued = 0;
  area.span = blocks;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const std::size_t slot = block % area.slots.size();
    if (slot == 0) HEADRACE_TRY(wait_for_all());
    area.marks.push_back({block, 1});
    put_marks(area.slots[slot].buffer, area.marks.back());
    request(area, true);
  }
  return wait_for_all();
}

Status QueueLoad::State::wait(const Event& event) {
  if (event.done()) return {};
  const Status how = platform.wait(event.over(), kPatience);
  if (how.ok()) return {};
  let_go = false;
  return how.with(queue->describe());
}

// A failure is passed on from each request to the next one of its buffer: the last ones know.
Status QueueLoad::State::wait_for_all() {
  ahead.clear();
  in_batch = 0;
  for (const Area* area : {&reads, &writes}) {
    for (const Slot& slot : area->slots) HEADRACE_TRY(wait(slot.last));
  }
  for (const Area* area : {&reads, &writes}) {
    for (const Slot& slot : area->slots) HEADRACE_TRY(slot.last.status());
  }
  return {};
}

void QueueLoad::State::request(Area& area, bool write) {
  const std::uint64_t block = area.queued % area.span;
  Slot& slot = area.slots[area.queued % area.slots.size()];
  const File& file = area.files[block % area.files.size()];
  ++area.queued;
  slot.block = block;
  slot.used = true;
  if (!write) {
    slot.last = queue->read(file, offset_of(block, area), slot.buffer, slot.last);
    return;
  }
  Event& before = area.last[block];  // two writes of one block must not race
  const Event after = before.done() ? slot.last : Event::all({slot.last, before});
  slot.last = queue->write(file, offset_of(block, area), slot.buffer, after);
  before = slot.last;
}

// Two to three batches are queued at any time, of a size that whoever waits here may be late, and
// that they are soon over when the time is.
Status QueueLoad::State::throttle(const Event& last) {
  if (++in_batch < batch) return {};
  in_batch = 0;
  ahead.push_back(last);
  if (ahead.size() < 3) return {};
  HEADRACE_TRY(wait(ahead.front()));
  const auto now = SteadyClock::now();
  if (now - std::exchange(batch_over, now) < kBatchTime) batch = std::min(2 * batch, kMostBatch);
  const Event over = std::exchange(ahead.front(), {});
  ahead.pop_front();
  return over.status();
}

// What needs the buffers' bytes, before the clock starts.
void QueueLoad::State::prepare(Direction direction) {
  ++runs;
  batch = std::max(reads.slots.size(), writes.slots.size());
  for (Area* area : {&reads, &writes}) {
    area->queued = 0;
    area->span = direction == Direction::mixed ? blocks / 2 : blocks;
    for (std::size_t k = 0; k < area->slots.size(); ++k) {
      Slot& slot = area->slots[k];
      slot.last = {};
      slot.used = false;
      put_marks(slot.buffer, {k, runs});  // in reads: marks of no block
    }
    std::fill(area->last.begin(), area->last.end(), Event());
  }
}

Status QueueLoad::State::queue_all(Direction direction, const LoadAmount& amount) {
  batch_over = SteadyClock::now();
  const auto end = batch_over + std::chrono::duration<double>(amount.seconds);
  std::uint64_t count = round_up(amount.bytes, options.block_bytes) / options.block_bytes;
  if (direction == Direction::mixed) count = round_up(count, 2);
  for (std::uint64_t done = 0;; ++done) {
    const bool whole = direction != Direction::mixed || done % 2 == 0;
    if (amount.seconds > 0 ? whole && SteadyClock::now() >= end : done >= count) break;
    const bool write =
        direction == Direction::write || (direction == Direction::mixed && done % 2 == 1);
    Area& area = write ? writes : reads;
    request(area, write);
    HEADRACE_TRY(throttle(area.slots[(area.queued - 1) % area.slots.size()].last));
  }
  return wait_for_all();
}

Status QueueLoad::State::wrong(std::uint64_t block) const {
  return {Code::corrupt, fmt::format("block {} in {} is not what was written", block,
                                     options.folders.front().string())};
}

Status QueueLoad::State::compare(ConstBytes found, std::uint64_t block, const Mark& mark) const {
  const ConstBytes wanted = pattern.bytes();
  for (std::size_t at = 0; at < found.size(); at += kSector) {
    if (mark_at(found, at / kSector) != mark ||
        std::memcmp(found.data() + at + sizeof mark, wanted.data() + at + sizeof mark,
                    kSector - sizeof mark) != 0) {
      return wrong(block);
    }
  }
  return {};
}

Status QueueLoad::State::compare_buffers() const {
  for (const Slot& slot : reads.slots) {
    if (slot.used) HEADRACE_TRY(compare(slot.buffer, slot.block, reads.marks[slot.block]));
  }
  return {};
}

Status QueueLoad::State::read_back(const Area& area) {
  if (area.slots.empty()) return {};
  for (std::uint64_t first = 0; first < blocks; first += area.slots.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(area.slots.size(), blocks - first);
    std::vector<Event> events;
    for (std::uint64_t k = 0; k < count; ++k) {
      const File& file = area.files[(first + k) % area.files.size()];
      events.push_back(queue->read(file, offset_of(first + k, area), area.slots[k].buffer));
    }
    for (std::uint64_t k = 0; k < count; ++k) {
      HEADRACE_TRY(wait(events[k]));
      HEADRACE_TRY(events[k].status());
      HEADRACE_TRY(compare(area.slots[k].buffer, first + k, area.marks[first + k]));
    }
  }
  return {};
}

QueueLoad::QueueLoad(std::unique_ptr<State> state) : state_(std::move(state)) {}
QueueLoad::QueueLoad(QueueLoad&&) noexcept = default;
QueueLoad& QueueLoad::operator=(QueueLoad&&) noexcept = default;
QueueLoad::~QueueLoad() = default;

Result<QueueLoad> QueueLoad::open(Platform& platform, const QueueLoadOptions& options) {
  HEADRACE_ASSIGN(Pages pattern, Pages::allocate(options.block_bytes));
  HEADRACE_ASSIGN(Memory memory, buffers_for(platform, options));
  HEADRACE_ASSIGN(std::unique_ptr<IoQueue> queue, queue_for(platform, options));
  auto state = std::make_unique<State>(platform, options, std::move(pattern), std::move(memory),
                                       std::move(queue));
  HEADRACE_TRY(state->start());
  return QueueLoad(std::move(state));
}

void QueueLoad::prepare(Direction direction) { state_->prepare(direction); }

Result<RawSample> QueueLoad::run(Direction direction, const LoadAmount& amount) {
  const auto start = SteadyClock::now();
  HEADRACE_TRY(state_->queue_all(direction, amount));
  const std::chrono::duration<double> taken = SteadyClock::now() - start;
  return RawSample{.read_bytes = state_->reads.queued * state_->options.block_bytes,
                   .written_bytes = state_->writes.queued * state_->options.block_bytes,
                   .seconds = taken.count()};
}

Status QueueLoad::check() {
  Area& writes = state_->writes;
  for (std::uint64_t done = 0; done < writes.queued; ++done) {
    writes.marks[done % writes.span] = {done % writes.slots.size(), state_->runs};
  }
  return state_->compare_buffers();
}

Status QueueLoad::verify() {
  HEADRACE_TRY(state_->read_back(state_->reads));
  return state_->read_back(state_->writes);
}

const std::vector<std::string>& QueueLoad::notes() const noexcept { return state_->notes; }

}  // namespace headrace::bench
