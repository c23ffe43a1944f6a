// The platforms that tests of tiers run on: simulated, and the machine's own disks with each
// engine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "io/platform.h"
#include "tests/support/temporary_folder.h"

namespace headrace {

enum class GroundKind { simulated, posix, uring };

class Ground {
 public:
  explicit Ground(GroundKind kind, EngineWrapper wrap = {}) : kind_(kind) {
    if (kind == GroundKind::simulated) {
      SimulationOptions options;
      options.seed = seed_;
      options.wrap_engine = std::move(wrap);
      platform_ = Platform::simulate(options);
      return;
    }
    PlatformOptions options;
    options.io = kind == GroundKind::uring ? IoBackend::uring : IoBackend::posix;
    options.wrap_engine = std::move(wrap);
    options.on_message = [this](std::string_view message) { said_.emplace_back(message); };
    platform_ = Platform::open(std::move(options)).value();
  }

  // Why this ground is not to be had here, or nothing.
  std::string missing() {
    const auto queue = platform_->queue_for(folder(0));
    return queue.ok() ? std::string() : std::string(queue.status().message());
  }

  Platform& platform() { return *platform_; }
  // To be printed: it decides the order of a simulated platform too.
  std::uint64_t seed() const { return seed_; }
  const std::vector<std::string>& said() const { return said_; }
  const std::filesystem::path& root() const { return root_.path(); }

  std::filesystem::path folder(std::size_t k) {
    const std::string name = "disk" + std::to_string(k);
    if (kind_ == GroundKind::simulated) return "/" + name;
    std::filesystem::create_directory(root_.path() / name);
    return root_.path() / name;
  }
  std::vector<std::filesystem::path> folders(std::size_t count) {
    std::vector<std::filesystem::path> all;
    for (std::size_t k = 0; k < count; ++k) all.push_back(folder(k));
    return all;
  }

  Status wait(const Event& event) { return platform_->wait(event, std::chrono::seconds(100)); }

 private:
  const GroundKind kind_;
  const TemporaryFolder root_;
  const std::uint64_t seed_ = std::random_device()();
  std::vector<std::string> said_;
  std::unique_ptr<Platform> platform_;
};

inline std::string ground_name(const testing::TestParamInfo<GroundKind>& info) {
  constexpr const char* kNames[] = {"simulated", "posix", "uring"};
  return kNames[static_cast<int>(info.param)];
}

inline std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  std::ranges::generate(bytes, [&random] { return static_cast<std::byte>(random()); });
  return bytes;
}

}  // namespace headrace
