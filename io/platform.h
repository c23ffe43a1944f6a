// Platform: what engines run on: a device, lanes, I/O queues, the clock, the trace. Real, or
// simulated from a seed: then nothing has a thread, and whoever waits runs the world in virtual
// time, in an order that the seed decides. The same step, mover and lease code runs on both.
//
// Must outlive the engines opened on it, which share its lanes and queues. Calls may come from any
// thread on a real platform, from one thread on a simulated one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/clock.h"
#include "io/device.h"
#include "io/event.h"
#include "io/io_queue.h"
#include "io/lane.h"
#include "io/limits.h"
#include "io/trace.h"

namespace headrace {

class SimulatedDisk;

// With the clock of the platform, which outlives the engine.
using EngineWrapper =
    std::function<std::unique_ptr<IoEngine>(std::unique_ptr<IoEngine>, Clock& clock)>;

enum class IoBackend : std::uint8_t { automatic, uring, posix };  // automatic: uring, else posix

struct PlatformOptions {
  IoBackend io = IoBackend::automatic;
  UringOptions uring;
  IoQueueOptions queue;       // name, clock and trace are the platform's
  EngineWrapper wrap_engine;  // e.g. faulty_engine or rate_limited_engine around the real one
  HostDeviceOptions device;   // make_lane and on_message are the platform's
  std::optional<SystemRoots> system;  // where the limits of memory are read; none: this machine's
  // Bodies of tasks are not called, and what is read is not looked at: what is left is the cost of
  // queuing and completing. For benchmarks, with device.memory = addresses.
  bool dry = false;
  bool trace = false;
  std::function<void(std::string_view)> on_message;  // warnings, each once; from any thread
};

struct SimulationOptions {
  std::uint64_t seed = 1;
  // A disk that another simulated platform has left, by a crash of its process: named files are
  // still there, unnamed ones are gone. Null: a fresh one, of the size and alignment below.
  std::shared_ptr<SimulatedDisk> disk;
  std::uint64_t disk_read_bytes_per_second = 2'000'000'000;
  std::uint64_t disk_write_bytes_per_second = 2'000'000'000;
  Nanoseconds disk_latency = std::chrono::microseconds(80);
  std::uint64_t copy_bytes_per_second = 20'000'000'000;
  std::uint64_t update_bytes_per_second = 20'000'000'000;  // of the optimizer lane
  std::uint64_t disk_bytes = 64 * kMiB;                    // free space of the in-memory disk
  std::uint32_t disk_alignment = 4096;
  IoQueueOptions queue;
  EngineWrapper wrap_engine;
  std::string boot_id = "simulated";
  std::uint64_t host_bytes = std::uint64_t{1} << 62;
  std::uint64_t device_bytes = std::uint64_t{1} << 40;
  // Nothing is done, it only takes its time: bodies of tasks are not called, memory is addresses
  // that nothing backs, files keep no bytes. For planning at sizes that no machine need have.
  bool dry = false;
  bool trace = false;
};

// Memory that can be had now, and what sets the limit: a file of the cgroup's, the machine, or the
// budget of a simulated platform.
struct MemoryLeft {
  std::uint64_t bytes = 0;
  std::string set_by;
};

class Platform {
 public:
  static Result<std::unique_ptr<Platform>> open(PlatformOptions options = {});
  static std::unique_ptr<Platform> simulate(SimulationOptions options = {});
  ~Platform();

  Clock& clock() noexcept;
  Device& device() noexcept;
  Trace* trace() noexcept;  // null when off
  bool simulated() const noexcept;

  // The optimizer's lane, one per NUMA node; made at the first call for each node.
  Lane& optimizer_lane(int numa_node = 0);
  // A lane for host-to-host copies.
  Lane& copy_lane();
  // A lane for what checkpoints are filled with: it may wait for the drive for long, and must not
  // hold up copies that a step needs.
  Lane& checkpoint_lane();
  // The queue of the drive that holds `folder`, which must exist; made at the first call for it.
  Result<IoQueue*> queue_for(const std::filesystem::path& folder);
  // Of the machine's running kernel: another one after each start. Simulated: as the options say.
  std::string boot_id() const;
  // Of the host; a host device's own memory lies there too. Read afresh.
  MemoryLeft memory_left() const;
  // A number that no other engine on this platform has.
  Owner new_owner();

  // Blocks until the event is over and gives its status; Code::timeout after `timeout` (virtual
  // time when simulated), with a report of every queue. Simulated: when nothing can run, a deadlock
  // is Code::timeout too, at once, saying so.
  Status wait(const Event& event, Nanoseconds timeout);
  // Code::invalid, naming both, in another process than the one that opened a real platform: a fork
  // has none of its threads. Nothing may be waited for there, and its destructor frees nothing.
  Status check_process() const;
  // What each queue has and waits for, a line each.
  std::string describe() const;
  std::vector<Usage> usage() const;

  // A warning for the user: passed on once per text.
  void say(std::string_view message);
  // All that was said so far.
  std::vector<std::string> messages() const;

 private:
  struct State;
  explicit Platform(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace headrace
