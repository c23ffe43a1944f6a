// The small model on a platform whose drive fails as a script says.
#pragma once

#include <memory>

#include "io/faults.h"
#include "tests/runtime/small_model.h"

namespace headrace::small {

struct Faulty {
  // `drain`: how long the platform's destruction waits for what never completes.
  explicit Faulty(GroundKind kind, std::uint64_t seed = 1) {
    const EngineWrapper wrap = [faults = script](std::unique_ptr<IoEngine> inner, Clock& clock) {
      return faulty_engine(std::move(inner), faults, &clock);
    };
    if (kind == GroundKind::simulated) {
      SimulationOptions options;
      options.seed = seed;
      options.wrap_engine = wrap;
      options.queue.drain = std::chrono::milliseconds(20);
      platform = Platform::simulate(options);
      path = "/disk0";
      return;
    }
    PlatformOptions options;
    options.io = kind == GroundKind::uring ? IoBackend::uring : IoBackend::posix;
    options.wrap_engine = wrap;
    options.queue.drain = std::chrono::milliseconds(20);
    platform = Platform::open(std::move(options)).value();
    path = folder.path();
  }

  bool missing() { return !platform->queue_for(path).ok(); }
  EngineOptions options(Place place = Place::nvme) const {
    return options_of({.place = place}, path);
  }
  std::unique_ptr<Engine> open() { return open(options()); }
  std::unique_ptr<Engine> open(const EngineOptions& with) {
    std::unique_ptr<Engine> engine = Engine::open(*platform, with).value();
    const Status built = build(*engine);
    EXPECT_TRUE(built.ok()) << built.to_string();
    return engine;
  }
  // Strikes the transfer that is `later` after the next one.
  void strike(FaultKind kind, Direction direction, std::uint64_t later = 0) {
    Fault fault;
    fault.kind = kind;
    fault.direction = direction;
    fault.first = script->seen(direction) + later;
    script->add(fault);
  }
  Status wait(const Event& event) { return platform->wait(event, std::chrono::seconds(100)); }

  const std::shared_ptr<FaultScript> script = std::make_shared<FaultScript>();
  const TemporaryFolder folder;
  std::filesystem::path path;
  std::unique_ptr<Platform> platform;
};

// What a run of the program without any fault gives after `steps` steps.
inline std::uint64_t hash_without_faults(int steps) {
  const Running plain({.place = Place::dram});
  EXPECT_TRUE(train(*plain, 0, steps).ok());
  return hash(*plain).value();
}

}  // namespace headrace::small
