// A small model with one tensor of each kind, and engines for it on every ground and tier: what the
// engine's own tests train.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/engine.h"
#include "tests/tiers/ground.h"

namespace headrace::small {

// In order of add. kBig spans many shards, kTied is kTable's alias, kOnce keeps its gradient in
// bf16.
constexpr TensorId kTable{0}, kNorm{1}, kFrozen{2}, kBig{3}, kHalf{4}, kEmpty{5}, kOnce{6},
    kTied{7};
constexpr std::size_t kTensors = 8;
constexpr std::uint32_t kUnits = 4;
constexpr std::uint64_t kShardBytes = 64 * kKiB;
inline constexpr std::array kGroups = {AdamW{1e-2, 0.9, 0.95, 1e-8, 0.1, true},
                                       AdamW{3e-3, 0.8, 0.99, 1e-8, 0.0, true}};

std::vector<TensorSpec> specs();
inline const TensorSpec& spec(TensorId tensor) {
  static const std::vector<TensorSpec> all = specs();
  return all.at(index_of(tensor));
}
std::vector<TensorId> with_state();  // trainable, no alias

// Where the state lies: mixed has some on every tier.
enum class Place : std::uint8_t { dram, hbm, nvme, mixed };
struct Setting {
  GroundKind ground = GroundKind::simulated;
  Place place = Place::nvme;
  StateFormat format = StateFormat::split;
};
// Every place and format on a simulated platform, and on real ones what differs there.
std::vector<Setting> settings();
std::string name_of(const Setting& setting);
EngineOptions options_of(const Setting& setting, const std::filesystem::path& folder);

// Magnitudes over some decades; the same for the same seed.
std::vector<float> values(std::uint64_t count, std::uint64_t seed);
std::vector<float> gradient(TensorId tensor, std::uint64_t seed);

Status add_all(Engine& engine);
// Another model: so many units of one fp32 tensor each, numbered alike. Seals.
Status build_equal(Engine& engine, std::uint32_t units, std::uint64_t count);
Status write_weights(Engine& engine);  // the initial ones
// Adds, seals, writes the initial weights.
Status build(Engine& engine);
// Puts gradient(tensor, seed), and waits until its source may go.
Status put(Engine& engine, TensorId tensor, std::uint64_t seed);
// One gradient for each tensor; the alias adds to its root's.
Status put_all(Engine& engine, std::uint64_t seed);
StepOptions step_options();  // clipping on
// Puts all and steps: once for each number in [from, to). Does not wait for the last updates.
Status train(Engine& engine, int from, int to);

std::size_t element_bytes(TensorId tensor, Kind kind);
Result<std::vector<std::byte>> bytes_of(Engine& engine, TensorId tensor, Kind kind);
Result<std::vector<float>> floats_of(Engine& engine, TensorId tensor, Kind kind);
// Over master, moments and parameter of every tensor that has them.
Result<std::uint64_t> hash(Engine& engine);
std::vector<std::uint64_t> steps_of(Engine& engine);

// A ground with an engine on it that was built.
struct Running {
  explicit Running(const Setting& setting, EngineWrapper wrap = {});
  Running(const Setting& setting, const std::function<void(EngineOptions&)>& change);
  Engine* operator->() const { return engine.get(); }
  Engine& operator*() const { return *engine; }

  Ground ground;
  std::unique_ptr<Engine> engine;
};

}  // namespace headrace::small
