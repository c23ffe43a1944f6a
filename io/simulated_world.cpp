#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "io/simulated_engine.h"
#include "io/world.h"

namespace headrace {
namespace {

// Whoever waits runs everything else: what can run now, in an order that the seed decides; when
// nothing can, the clock moves to where something ends.
class SimulatedWorld : public World {
 public:
  SimulatedWorld(const SimulationOptions& options, WorldParts parts)
      : drive_{options.disk_read_bytes_per_second, options.disk_write_bytes_per_second,
               options.disk_latency, 0},
        wrap_engine_(options.wrap_engine),
        parts_(std::move(parts)),
        disk_(options.disk ? options.disk
                           : std::make_shared<SimulatedDisk>(options.disk_bytes,
                                                             options.disk_alignment, !options.dry)),
        dry_(options.dry),
        random_(options.seed) {}

  std::unique_ptr<Lane> make_lane(LaneOptions options) override {
    options.dry = dry_;
    std::unique_ptr<Lane> lane = Lane::manual(complete(std::move(options), parts_));
    parts_.lanes->add(*lane);
    return lane;
  }

  // A drive is what lies below a first folder, "/disk0"; folders come into being here.
  Result<std::uint64_t> drive_of(const std::filesystem::path& folder) override {
    disk_->make_folders(folder);
    const auto below_root =
        (std::filesystem::path("/") / folder).lexically_normal().relative_path();
    const std::string first = below_root.empty() ? "" : below_root.begin()->string();
    return drives_.try_emplace(first, drives_.size()).first->second;
  }

  Result<std::unique_ptr<IoQueue>> open_queue(IoQueueOptions options) override {
    SimulatedDrive drive = drive_;
    drive.seed = random_();
    options.dry = dry_;
    std::unique_ptr<IoEngine> engine = simulated_engine(disk_, drive, parts_.clock);
    if (wrap_engine_) engine = wrap_engine_(std::move(engine), parts_.clock);
    HEADRACE_ASSIGN(std::unique_ptr<IoQueue> queue,
                    IoQueue::open_manual(std::move(engine), std::move(options)));
    queues_.push_back(queue.get());
    return queue;
  }

  Status wait(const Event& event, Nanoseconds timeout) override {
    const Nanoseconds deadline = deadline_after(parts_.clock.now(), timeout);
    // Not event.done(): it looks at what is over again and again, and a step has many ends.
    const auto inbox = std::make_shared<Inbox>();
    std::size_t open = event.notify(inbox, 0);
    for (std::vector<std::uint64_t> ended;;) {
      inbox->take(ended);
      open -= ended.size();
      if (open == 0) return {};
      if (run_one()) continue;
      const Nanoseconds next = next_due();
      if (next == kForever) return Status(Code::timeout, "deadlock: nothing can run any more");
      parts_.clock.advance_to(std::min(next, deadline));
      if (next > deadline)
        return Status(Code::timeout, fmt::format("not over after {:.6f} s of virtual time",
                                                 std::chrono::duration<double>(timeout).count()));
    }
  }

 private:
  // One of the two.
  struct Choice {
    Lane* lane = nullptr;
    IoQueue* queue = nullptr;
  };

  bool over(const Lane& lane) const { return lane.due() <= parts_.clock.now(); }

  bool run_one() {
    std::vector<Choice> choices;
    parts_.lanes->each([&](Lane& lane) {
      if (over(lane) || lane.can_start()) choices.push_back({&lane, nullptr});
    });
    for (IoQueue* queue : queues_)
      if (queue->can_pump()) choices.push_back({nullptr, queue});
    if (choices.empty()) return false;
    const Choice choice = choices[random_() % choices.size()];
    if (choice.queue != nullptr)
      choice.queue->pump();
    else if (over(*choice.lane))
      choice.lane->finish();
    else
      choice.lane->start(random_() % 2 == 0);
    return true;
  }

  Nanoseconds next_due() const {
    Nanoseconds next = kForever;
    parts_.lanes->each([&](Lane& lane) { next = std::min(next, lane.due()); });
    for (const IoQueue* queue : queues_) next = std::min(next, queue->due());
    return next;
  }

  const SimulatedDrive drive_;
  const EngineWrapper wrap_engine_;
  const WorldParts parts_;
  const std::shared_ptr<SimulatedDisk> disk_;
  const bool dry_;
  std::mt19937_64 random_;
  std::map<std::string, std::uint64_t> drives_;
  std::vector<IoQueue*> queues_;  // the platform's
};

}  // namespace

std::unique_ptr<World> simulated_world(const SimulationOptions& options, WorldParts parts) {
  return std::make_unique<SimulatedWorld>(options, std::move(parts));
}

}  // namespace headrace
