#include "io/platform.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "io/topology.h"
#include "io/world.h"

namespace headrace {

void LaneList::add(Lane& lane) {
  const std::lock_guard lock(mutex_);
  lanes_.push_back(&lane);
}

void LaneList::remove(const Lane& lane) {
  const std::lock_guard lock(mutex_);
  std::erase(lanes_, &lane);
}

void LaneList::each(const std::function<void(Lane&)>& look) const {
  const std::lock_guard lock(mutex_);
  for (Lane* lane : lanes_) look(*lane);
}

LaneOptions complete(LaneOptions options, const WorldParts& parts) {
  options.clock = &parts.clock;
  options.trace = parts.trace;
  options.on_gone = [lanes = parts.lanes](const Lane& lane) { lanes->remove(lane); };
  return options;
}

// Destroyed from the end: queues and lanes first, then the device, the clock last.
struct Platform::State {
  State(Clock::Kind kind, bool traced) : clock(kind) {
    if (traced) trace = std::make_unique<Trace>();
  }
  WorldParts parts() {
    return {clock, trace.get(), lanes, [this](std::string_view message) { say(message); }};
  }
  void open_device(HostDeviceOptions options);
  void say(std::string_view message);
  void bind_to(int numa_node);
  std::unique_ptr<Lane> make_lane(LaneOptions options) {
    return world->make_lane(std::move(options));
  }
  Result<IoQueue*> open_queue(std::uint64_t drive);
  Lane& lane_of_copies(std::unique_ptr<Lane>& lane, const char* name);

  const pid_t process = ::getpid();
  Clock clock;
  std::unique_ptr<Trace> trace;
  const std::shared_ptr<LaneList> lanes = std::make_shared<LaneList>();
  IoQueueOptions queue;
  std::string boot_id;  // of a simulated one
  SystemRoots system;
  std::uint64_t update_rate = 0;  // bytes per second; 0: as fast as it goes
  std::uint64_t copy_rate = 0;
  std::function<void(std::string_view)> on_message;
  std::unique_ptr<World> world;
  std::unique_ptr<Device> device;
  std::mutex opening;  // held while a queue is opened: one for each drive
  std::mutex mutex;
  std::set<std::string, std::less<>> said;                   // guarded by mutex
  std::uint64_t last_owner = 0;                              // guarded by mutex
  std::map<int, std::unique_ptr<Lane>> optimizer_lanes;      // guarded by mutex; by NUMA node
  std::unique_ptr<Lane> copy_lane;                           // guarded by mutex
  std::unique_ptr<Lane> checkpoint_lane;                     // guarded by mutex
  std::map<std::uint64_t, std::unique_ptr<IoQueue>> queues;  // guarded by mutex; by drive
};

void Platform::State::open_device(HostDeviceOptions options) {
  options.make_lane = [this](LaneOptions lane) { return make_lane(std::move(lane)); };
  options.on_message = [this](std::string_view message) { say(message); };
  device = Device::open_host(std::move(options));
}

void Platform::State::say(std::string_view message) {
  {
    const std::lock_guard lock(mutex);
    if (!said.emplace(message).second) return;
  }
  if (on_message) on_message(message);
}

// For the calling thread. On a machine of one node there is nothing to choose.
void Platform::State::bind_to(int numa_node) {
  const Result<Topology> topology = find_topology();
  if (!topology.ok() || topology->nodes.size() < 2) return;
  Status how(Code::invalid, "no such node");
  for (const NumaNode& node : topology->nodes)
    if (node.index == numa_node) how = bind_thread(node);
  if (!how.ok())
    say(fmt::format("the optimizer is not bound to NUMA node {}: {}", numa_node, how.message()));
}

Result<IoQueue*> Platform::State::open_queue(std::uint64_t drive) {
  IoQueueOptions options = queue;
  options.clock = &clock;
  options.trace = trace.get();
  options.name = fmt::format("nvme{}", queues.size());
  HEADRACE_ASSIGN(std::unique_ptr<IoQueue> opened, world->open_queue(std::move(options)));
  const std::lock_guard lock(mutex);
  return (queues[drive] = std::move(opened)).get();
}

Platform::Platform(std::unique_ptr<State> state) : state_(std::move(state)) {}
Platform::~Platform() {
  if (!check_process().ok())
    static_cast<void>(state_.release());  // threads that are not here cannot be joined
}

Result<std::unique_ptr<Platform>> Platform::open(PlatformOptions options) {
  auto state = std::make_unique<State>(Clock::Kind::real, options.trace);
  state->queue = options.queue;
  state->on_message = options.on_message;
  if (options.system) state->system = *options.system;
  state->world = real_world(options, state->parts());
  state->open_device(std::move(options.device));
  return std::unique_ptr<Platform>(new Platform(std::move(state)));
}

std::unique_ptr<Platform> Platform::simulate(SimulationOptions options) {
  auto state = std::make_unique<State>(Clock::Kind::simulated, options.trace);
  state->queue = options.queue;
  state->boot_id = options.boot_id;
  state->update_rate = options.update_bytes_per_second;
  state->copy_rate = options.copy_bytes_per_second;
  state->world = simulated_world(options, state->parts());
  HostDeviceOptions device;
  device.copy_bytes_per_second = options.copy_bytes_per_second;
  device.host_bytes = options.host_bytes;
  device.device_bytes = options.device_bytes;
  device.memory = options.dry ? HostMemoryKind::addresses : HostMemoryKind::plain;
  state->open_device(std::move(device));
  return std::unique_ptr<Platform>(new Platform(std::move(state)));
}

Clock& Platform::clock() noexcept { return state_->clock; }
Device& Platform::device() noexcept { return *state_->device; }
Trace* Platform::trace() noexcept { return state_->trace.get(); }
bool Platform::simulated() const noexcept { return state_->clock.simulated(); }

Lane& Platform::optimizer_lane(int numa_node) {
  const std::lock_guard lock(state_->mutex);
  std::unique_ptr<Lane>& lane = state_->optimizer_lanes[numa_node];
  if (!lane) {
    LaneOptions options;
    options.name = numa_node == 0 ? "optimizer" : fmt::format("optimizer{}", numa_node);
    options.bytes_per_second = state_->update_rate;
    options.on_start = [state = state_.get(), numa_node] { state->bind_to(numa_node); };
    lane = state_->make_lane(std::move(options));
  }
  return *lane;
}

Lane& Platform::State::lane_of_copies(std::unique_ptr<Lane>& lane, const char* name) {
  const std::lock_guard lock(mutex);
  if (!lane) {
    LaneOptions options;
    options.name = name;
    options.bytes_per_second = copy_rate;
    lane = make_lane(std::move(options));
  }
  return *lane;
}

Lane& Platform::copy_lane() { return state_->lane_of_copies(state_->copy_lane, "copy"); }

Lane& Platform::checkpoint_lane() {
  return state_->lane_of_copies(state_->checkpoint_lane, "checkpoint");
}

Result<IoQueue*> Platform::queue_for(const std::filesystem::path& folder) {
  HEADRACE_TRY(check_process());
  HEADRACE_ASSIGN(const std::uint64_t drive, state_->world->drive_of(folder));
  const std::lock_guard opening(state_->opening);
  {
    const std::lock_guard lock(state_->mutex);
    if (const auto known = state_->queues.find(drive); known != state_->queues.end())
      return known->second.get();
  }
  return state_->open_queue(drive);
}

std::string Platform::boot_id() const {
  if (simulated()) return state_->boot_id;
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

MemoryLeft Platform::memory_left() const {
  const MemoryUse use = state_->device->use(Home::host);
  if (simulated()) return {use.capacity - use.used, "the simulated machine"};
  const std::uint64_t left = available_memory_bytes(state_->system);
  const auto cgroup = cgroup_memory(state_->system);
  return {left, cgroup && cgroup->left_bytes == left ? cgroup->set_by : "the machine"};
}

Owner Platform::new_owner() {
  const std::lock_guard lock(state_->mutex);
  return Owner{++state_->last_owner};
}

Status Platform::check_process() const {
  const pid_t here = ::getpid();
  if (simulated() || here == state_->process) return {};
  return Status(Code::invalid,
                fmt::format("opened in process {}, and this is process {}, a fork, which has none "
                            "of its threads and memory: open a platform and an engine of its own "
                            "here, or fork before they are opened",
                            state_->process, here));
}

Status Platform::wait(const Event& event, Nanoseconds timeout) {
  HEADRACE_TRY(check_process());
  if (event.done()) return event.status();
  const Status how = state_->world->wait(event, timeout);
  if (event.done()) return event.status();
  return Status(how.code(), fmt::format("{}\n{}", how.message(), describe()));
}

std::string Platform::describe() const {
  if (const Status here = check_process(); !here.ok()) return here.to_string();
  std::string text;
  const auto add = [&text](const std::string& line) {
    if (!line.empty()) text += (text.empty() ? "" : "\n") + line;
  };
  state_->lanes->each([&](Lane& lane) { add(lane.describe()); });
  const std::lock_guard lock(state_->mutex);
  for (const auto& [drive, queue] : state_->queues) add(queue->describe());
  return text;
}

std::vector<Usage> Platform::usage() const {
  std::vector<Usage> usages;
  if (!check_process().ok()) return usages;
  state_->lanes->each([&](Lane& lane) { usages.push_back(lane.usage()); });
  const std::lock_guard lock(state_->mutex);
  for (const auto& [drive, queue] : state_->queues) usages.push_back(queue->usage());
  return usages;
}

void Platform::say(std::string_view message) { state_->say(message); }

std::vector<std::string> Platform::messages() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->said.begin(), state_->said.end()};
}

}  // namespace headrace
