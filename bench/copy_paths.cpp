#include "bench/copy_paths.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <latch>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "bench/raw_file.h"
#include "optim_cpu/team.h"

namespace headrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::minutes(2);
constexpr std::uint64_t kInFlight = 64 * kMiB;
constexpr std::uint64_t kFewestSlots = 4;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// An event that is over once the gate is opened; the destructor opens it.
class Gate {
 public:
  Gate() : lane_(Lane::threaded({.name = "gate"})) {
    closed_ = lane_->run({.body = [latch = latch_] { return latch->wait(), Status(); }});
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  const Event& event() const { return closed_; }
  void open() {
    if (!std::exchange(open_, true)) latch_->count_down();
  }

 private:
  const std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
  const std::unique_ptr<Lane> lane_;
  Event closed_;
  bool open_ = false;
};

void copy_pieces(ConstBytes from, Bytes to, std::uint64_t piece) {
  for (std::size_t done = 0; done < to.size(); done += piece) {
    std::memcpy(to.data() + done, from.data() + done, std::min(piece, to.size() - done));
  }
}

std::uint64_t slots_of(std::uint64_t piece) { return std::max(kFewestSlots, kInFlight / piece); }

}  // namespace

CopyPaths::CopyPaths(Platform& platform, std::uint64_t bytes)
    : platform_(platform), bytes_(bytes), mover_(platform, platform.new_owner(), "bench") {}

CopyPaths::~CopyPaths() {
  if (plain_device_.name != nullptr) unmap_hidden_pages(plain_device_);
}

Result<std::unique_ptr<CopyPaths>> CopyPaths::open(Platform& platform, std::uint64_t bytes,
                                                   std::uint64_t largest,
                                                   const std::filesystem::path& folder) {
  std::unique_ptr<CopyPaths> paths(new CopyPaths(platform, bytes));
  const std::uint64_t all = (kSources + 1) * bytes;
  HEADRACE_TRY(paths->make(Place::host, Tier::dram(platform, all)));
  HEADRACE_TRY(paths->make(Place::device, Tier::hbm(platform, all)));
  if (!folder.empty()) {
    HEADRACE_TRY(paths->make(Place::nvme, Tier::nvme(platform, {&folder, 1}, all)));
    HEADRACE_TRY(paths->make_slots(largest, folder));
  }
  HEADRACE_TRY(paths->make_plain());
  HEADRACE_TRY(paths->fill());
  return paths;
}

Status CopyPaths::make(Place place, Result<std::unique_ptr<Tier>> tier) {
  HEADRACE_TRY(tier.status());
  Area& area = at(place);
  area.tier = std::move(tier).value();
  HEADRACE_ASSIGN(area.extent, area.tier->allocate((kSources + 1) * bytes_));
  for (std::size_t i = 0; i < kSources; ++i) {
    area.sources[i] = area.extent.region().sub(i * bytes_, bytes_);
  }
  area.target = area.extent.region().sub(kSources * bytes_, bytes_);
  return {};
}

// Registered with the drive's queue where that is allowed, as an engine's slots are.
Status CopyPaths::make_slots(std::uint64_t largest, const std::filesystem::path& folder) {
  const std::uint64_t size = std::max(kFewestSlots * largest, kInFlight);
  HEADRACE_ASSIGN(slots_, Tier::dram(platform_, size));
  HEADRACE_ASSIGN(slot_extent_, slots_->allocate(size));
  HEADRACE_ASSIGN(IoQueue* const queue, platform_.queue_for(folder));
  return wait(slots_->register_with(*queue).over());
}

Status CopyPaths::make_plain() {
  HEADRACE_ASSIGN(plain_device_, map_hidden_pages((kSources + 1) * bytes_));
  return {};
}

Status CopyPaths::fill() {
  std::vector<Event> ends;
  for (std::size_t i = 0; i < kSources; ++i) {
    const Region& source = at(Place::host).sources[i];
    fill_random(source.view().bytes(), i + 1);
    ends.push_back(mover_.move(source, at(Place::device).sources[i]));
    if (slots_) ends.push_back(mover_.move(source, at(Place::nvme).sources[i]));
  }
  for (std::size_t i = 0; i <= kSources; ++i) {
    copy_pieces(plain_source(Place::host, i % kSources),
                plain_device_.bytes.subspan(i * bytes_, bytes_), bytes_);
  }
  return wait(Event::all(ends));
}

const Region& CopyPaths::next_source(const Path& path) {
  std::size_t& held = at(path.to).held;
  held = (held + 1) % kSources;
  return at(path.from).sources[held];
}

void CopyPaths::queue(const Path& path, std::uint64_t piece, const Event& start,
                      std::vector<Event>& ends) {
  const Region& from = next_source(path);
  const Region& to = at(path.to).target;
  const bool direct = path.from != Place::nvme && path.to != Place::nvme;
  std::vector<Event> free(direct ? 0 : slots_of(piece));
  for (std::uint64_t done = 0, k = 0; done < bytes_; done += piece, ++k) {
    const Region source = from.sub(done, piece);
    const Region target = to.sub(done, piece);
    if (direct) {
      ends.push_back(mover_.move(source, target, start));
      continue;
    }
    const std::uint64_t index = k % free.size();
    const Region slot = slot_extent_.region().sub(index * piece, piece);
    const Event loaded = mover_.move(source, slot, Event::all({start, free[index]}));
    ends.push_back(mover_.move(slot, target, loaded));
    free[index] = ends.back().over();
  }
}

Result<double> CopyPaths::move(std::span<const Path> paths, std::uint64_t piece) {
  Gate gate;
  std::vector<Event> ends;
  for (const Path& path : paths) queue(path, piece, gate.event(), ends);
  const Event end = Event::all(ends);
  const auto start = SteadyClock::now();
  gate.open();
  HEADRACE_TRY(wait(end));
  return seconds_since(start);
}

ConstBytes CopyPaths::plain_source(Place place, std::size_t index) {
  if (place == Place::device) return plain_device_.bytes.subspan(index * bytes_, bytes_);
  return at(place).sources[index].view().bytes();
}

// For what source `index` has.
Bytes CopyPaths::plain_target(Place place, std::size_t index) {
  if (place == Place::device) return plain_device_.bytes.subspan(kSources * bytes_, bytes_);
  at(place).held = index;
  return at(place).target.view().bytes();
}

double CopyPaths::plain(std::span<const Path> paths, std::uint64_t piece) {
  std::latch ready(static_cast<std::ptrdiff_t>(paths.size()));
  std::latch go(1);
  const std::size_t index = plain_turn_++ % kSources;
  std::vector<std::thread> threads;
  for (const Path& path : paths) {
    threads.emplace_back([&ready, &go, piece, from = plain_source(path.from, index),
                          to = plain_target(path.to, index)] {
      ready.count_down();
      go.wait();
      copy_pieces(from, to, piece);
    });
  }
  ready.wait();
  const auto start = SteadyClock::now();
  go.count_down();
  for (std::thread& thread : threads) thread.join();
  return seconds_since(start);
}

double CopyPaths::plain_team(int threads) {
  const ConstBytes from = plain_source(Place::host, 0);
  const Bytes to = plain_target(Place::host, 0);
  const auto start = SteadyClock::now();
  on_team({threads}, [&](int thread) {
    const Part pages = part_of(to.size() / kPageBytes, thread, threads);
    const std::size_t begin = pages.begin * kPageBytes;
    const std::size_t size = (pages.end - pages.begin) * kPageBytes;
    std::memcpy(to.data() + begin, from.data() + begin, size);
  });
  return seconds_since(start);
}

Status CopyPaths::verify(Place target) {
  const Area& area = at(target);
  Area& host = at(Place::host);
  if (target != Place::host) {
    HEADRACE_TRY(wait(mover_.move(area.target, host.target)));
    host.held = area.held;
  }
  const ConstBytes found = host.target.view().bytes();
  const ConstBytes wanted = host.sources[area.held].view().bytes();
  if (std::memcmp(found.data(), wanted.data(), found.size()) == 0) return {};
  const auto difference = std::ranges::mismatch(found, wanted).in1;
  return {Code::corrupt, fmt::format("byte {} in {} is not what was moved there",
                                     difference - found.begin(), area.tier->name())};
}

Status CopyPaths::wait(const Event& event) { return platform_.wait(event, kPatience); }

}  // namespace headrace::bench
