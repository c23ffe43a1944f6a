// World: what differs between a real platform and a simulated one. Private to platform.cpp and its
// two implementations.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "io/platform.h"

namespace headrace {

// The lanes that live now, a device's streams' too. They leave by themselves, in any order.
class LaneList {
 public:
  void add(Lane& lane);
  void remove(const Lane& lane);
  // Of each one while it lives; `look` makes and destroys none.
  void each(const std::function<void(Lane&)>& look) const;

 private:
  mutable std::mutex mutex_;
  std::vector<Lane*> lanes_;  // guarded by mutex_; in the order they were made
};

class World {
 public:
  virtual ~World() = default;
  virtual std::unique_ptr<Lane> make_lane(LaneOptions options) = 0;
  // A number for the drive that holds the folder.
  virtual Result<std::uint64_t> drive_of(const std::filesystem::path& folder) = 0;
  virtual Result<std::unique_ptr<IoQueue>> open_queue(IoQueueOptions options) = 0;
  // Until the event is over, however it ended. Otherwise Code::timeout, without a report.
  virtual Status wait(const Event& event, Nanoseconds timeout) = 0;
};

// What a world shares with its platform, which outlives it.
struct WorldParts {
  Clock& clock;
  Trace* trace = nullptr;
  std::shared_ptr<LaneList> lanes;
  std::function<void(std::string_view)> say;
};
std::unique_ptr<World> real_world(const PlatformOptions& options, WorldParts parts);
std::unique_ptr<World> simulated_world(const SimulationOptions& options, WorldParts parts);

// Adds what every lane of a platform has: clock, trace, its place in the list.
LaneOptions complete(LaneOptions options, const WorldParts& parts);

}  // namespace headrace
