#include "tests/simulation/machine.h"

#include <fmt/format.h>

#include "tests/simulation/random.h"

namespace headrace::simulation {
namespace {

using enum ScalarType;

std::uint64_t random_count(Random& random, bool large) {
  if (large) return 150'000 + random.below(60'000);  // state of more than a stripe
  if (random.one_in(20)) return 0;
  if (random.one_in(2)) return 1 + random.below(300);
  return random.one_in(4) ? 2'000 + random.below(4'000) : 300 + random.below(2'000);
}

TensorSpec random_tensor(Random& random, const Machine& machine, bool large) {
  TensorSpec spec;
  spec.name = fmt::format("t{}", machine.tensors.size());
  spec.unit = UnitId{static_cast<std::uint32_t>(random.below(machine.units))};
  spec.group = GroupId{static_cast<std::uint32_t>(random.below(machine.groups.size()))};
  spec.count = random_count(random, large);
  spec.param = random.any_of({bf16, bf16, fp32, fp16});
  spec.grad = random.any_of({fp32, fp32, fp32, bf16, fp16});
  spec.trainable = !random.one_in(8);
  if (machine.tensors.empty() || !random.one_in(7)) return spec;
  const std::uint64_t root = random.below(machine.tensors.size());
  const TensorSpec& tied = machine.tensors[root];
  spec.alias_of = TensorId{static_cast<std::uint32_t>(root)};
  spec.count = tied.count;
  spec.param = tied.param;
  spec.trainable = tied.trainable;
  return spec;
}

void choose_model(Random& random, Machine& machine) {
  machine.units = static_cast<std::uint32_t>(1 + random.below(4));
  for (std::uint64_t g = 1 + random.below(2); g > 0; --g)
    machine.groups.push_back({random.any_of({1e-2, 3e-3}), random.any_of({0.9, 0.8, 0.0}),
                              random.any_of({0.95, 0.999}), 1e-8, random.any_of({0.0, 0.1}),
                              !random.one_in(4)});
  const bool large = random.one_in(100);
  for (std::uint64_t t = 1 + random.below(7); t > 0; --t)
    machine.tensors.push_back(random_tensor(random, machine, large && t == 1));
}

void choose_rates(Random& random, Machine& machine) {
  SimulationOptions& platform = machine.platform;
  platform.disk_read_bytes_per_second = random.spread(20'000'000, 20'000'000'000);
  platform.disk_write_bytes_per_second = random.spread(20'000'000, 20'000'000'000);
  platform.disk_latency = std::chrono::microseconds(random.any_of({0, 1, 80, 1'000}));
  platform.copy_bytes_per_second = random.spread(20'000'000, 40'000'000'000);
  platform.update_bytes_per_second = random.spread(20'000'000, 40'000'000'000);
  platform.disk_alignment = random.any_of({512U, 4096U});
  platform.queue.chunk_bytes =
      random.any_of<std::size_t>({4 * kKiB, 8 * kKiB, 20'000, 64 * kKiB, 2 * kMiB});
  platform.queue.in_flight_bytes =
      random.any_of<std::size_t>({4 * kKiB, 32 * kKiB, 256 * kKiB, 48 * kMiB});
  platform.queue.in_flight_chunks = random.any_of({1U, 2U, 5U, 64U});
  platform.queue.drain = std::chrono::milliseconds(20);
}

void choose_paths(Random& random, EngineOptions& engine) {
  constexpr const char* kPaths[][3] = {{"/disk0", "/disk1", "/disk2"},
                                       {"/disk0/a", "/disk0/b", "/disk1"}};
  const std::uint64_t kind = random.below(2), count = 1 + random.below(3);
  for (std::uint64_t p = 0; p < count; ++p) engine.nvme_paths.emplace_back(kPaths[kind][p]);
}

void choose_homes(Random& random, EngineOptions& engine) {
  constexpr std::uint64_t kShard = 24 * kKiB;  // the smallest one's state
  engine.state = random.any_of({StateHome::nvme, StateHome::nvme, StateHome::nvme,
                                StateHome::automatic, StateHome::hbm, StateHome::dram});
  if (engine.state == StateHome::dram) return;
  if (engine.state != StateHome::hbm) choose_paths(random, engine);
  const auto slots = static_cast<std::uint64_t>(engine.slots);
  const std::uint64_t slot = 128 * kKiB;  // of the largest shards and alignment
  if (engine.state == StateHome::automatic || random.one_in(3))
    engine.dram_bytes = slots * slot + random.below(6) * kShard;
  if (engine.state == StateHome::automatic && random.one_in(2))
    engine.hbm_bytes = random.below(6) * kShard;
}

void choose_engine(Random& random, Machine& machine) {
  EngineOptions& engine = machine.engine;
  engine.format = random.any_of({StateFormat::fp32, StateFormat::split});
  engine.params = random.any_of({ParamHome::dram, ParamHome::hbm, ParamHome::streamed});
  engine.slots = static_cast<int>(2 + random.below(4));
  engine.shard_bytes = random.any_of<std::uint64_t>({1, 48 * kKiB, 100 * kKiB});
  engine.threads = 1;
  engine.max_live_leases = static_cast<unsigned>(1 + random.below(4));
  engine.deadline = std::chrono::seconds(20);
  choose_homes(random, engine);
  if (engine.state == StateHome::nvme && random.one_in(3)) {
    engine.durability = Durability::reusable;
    engine.dram_bytes = 0;
  }
  if (random.one_in(10)) engine.nvme_alignment = random.any_of({4096U, 16'384U, 65'536U});
}

void choose_limits(Random& random, Machine& machine) {
  machine.tight = random.one_in(25);
  if (!machine.tight) return;
  if (random.one_in(2))
    machine.platform.host_bytes = 4 * kMiB + random.below(20) * 32 * kKiB;
  else
    machine.platform.disk_bytes = random.below(20) * 32 * kKiB;
}

}  // namespace

Machine random_machine(std::uint64_t seed) {
  Random random(seed);
  Machine machine;
  machine.seed = seed;
  choose_model(random, machine);
  choose_rates(random, machine);
  choose_engine(random, machine);
  choose_limits(random, machine);
  return machine;
}

std::string to_string(const Machine& machine) {
  constexpr const char* kStates[] = {"automatic", "dram", "hbm", "nvme"};
  constexpr const char* kParams[] = {"dram", "hbm", "streamed"};
  const EngineOptions& engine = machine.engine;
  const IoQueueOptions& queue = machine.platform.queue;
  std::string text = fmt::format(
      "state {}{} on {} paths, {}, params {}; dram {}, hbm {}, shards {}, {} slots, {} leases, "
      "alignment {}; chunks {}, in flight {} and {}; disk {} and {} B/s, {} us{}\n",
      kStates[static_cast<std::size_t>(engine.state)],
      engine.durability == Durability::reusable ? ", reusable," : "", engine.nvme_paths.size(),
      engine.format == StateFormat::fp32 ? "fp32" : "split",
      kParams[static_cast<std::size_t>(engine.params)], engine.dram_bytes, engine.hbm_bytes,
      engine.shard_bytes, engine.slots, engine.max_live_leases, engine.nvme_alignment,
      queue.chunk_bytes, queue.in_flight_bytes, queue.in_flight_chunks,
      machine.platform.disk_read_bytes_per_second, machine.platform.disk_write_bytes_per_second,
      machine.platform.disk_latency.count() / 1000, machine.tight ? "; tight" : "");
  constexpr const char* kTypes[] = {"fp32", "bf16", "fp16"};
  for (const TensorSpec& spec : machine.tensors)
    text += fmt::format(
        "  {} of unit {}, group {}: {} {}, gradient {}{}{}\n", spec.name, index_of(spec.unit),
        index_of(spec.group), spec.count, kTypes[static_cast<std::size_t>(spec.param)],
        kTypes[static_cast<std::size_t>(spec.grad)], spec.trainable ? "" : ", frozen",
        spec.alias_of ? fmt::format(", tied to t{}", index_of(*spec.alias_of)) : "");
  return text;
}

}  // namespace headrace::simulation
