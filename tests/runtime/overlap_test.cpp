// What runs under what, in virtual time: the update under the next forward, reads during backward,
// the step against the best possible one, and a pipeline of links against its slowest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "runtime/engine.h"

namespace headrace {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kUnits = 24;
constexpr std::uint64_t kUnitElements = 8'192;  // two shards of 48 KiB of state each
constexpr int kSlots = 3;
constexpr int kShards = 48;
constexpr std::uint64_t kShardBytes = 48 * kKiB;
constexpr std::uint64_t kStateBytes = kShards * kShardBytes;

constexpr AdamW kGroup{1e-3, 0.9, 0.95, 1e-8, 0.1, true};

// A drive of 200 MB/s, an optimizer that is about nine times as fast, links of 400 MB/s.
SimulationOptions machine() {
  SimulationOptions options;
  options.disk_read_bytes_per_second = 200'000'000;
  options.disk_write_bytes_per_second = 200'000'000;
  options.disk_latency = std::chrono::microseconds(2);
  options.update_bytes_per_second = 2'000'000'000;
  options.copy_bytes_per_second = 400'000'000;
  options.queue.chunk_bytes = 16 * kKiB;
  return options;
}

EngineOptions engine_options(StateHome home, std::uint64_t pinned_bytes = 0) {
  EngineOptions options;
  options.format = StateFormat::fp32;
  options.state = home;
  options.shard_bytes = kShardBytes;
  options.slots = kSlots;
  options.threads = 1;
  if (home != StateHome::nvme) return options;
  options.nvme_paths = {"/disk0"};
  options.dram_bytes = kSlots * kShardBytes + pinned_bytes;
  return options;
}

double in_seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// A program that trains: forward and backward are played by a stream, unit by unit, and the caller
// waits for each of them as a program on the host would.
class Program {
 public:
  explicit Program(const EngineOptions& options, const SimulationOptions& simulation = machine()) {
    platform_ = Platform::simulate(simulation);
    engine_ = Engine::open(*platform_, options).value();
    for (std::uint32_t u = 0; u < kUnits; ++u)
      EXPECT_TRUE(
          engine_
              ->add({.name = "unit" + std::to_string(u), .unit = UnitId{u}, .count = kUnitElements})
              .ok());
    EXPECT_TRUE(engine_->seal().ok());
    compute_ = platform_->device().open_stream("compute");
  }

  Engine& engine() const { return *engine_; }
  Nanoseconds now() const { return platform_->clock().now(); }
  void wait(const Event& event) {
    const Status how = platform_->wait(event, seconds(1000));
    ASSERT_TRUE(how.ok()) << how.to_string();
  }

  // Queues the unit's pass behind its lease.
  Event pass(std::uint32_t unit, Nanoseconds time, const char* name) {
    Lease lease = engine_->acquire(UnitId{unit}).value();
    const Event end = compute_->occupy(time, name, lease.ready());
    lease.release(end);
    return end;
  }
  void forward(Nanoseconds time) {
    for (std::uint32_t u = 0; u < kUnits; ++u) wait(pass(u, time / kUnits, "forward"));
  }
  void backward(Nanoseconds time) {
    for (std::uint32_t u = kUnits; u-- > 0;) {
      const Event end = pass(u, time / kUnits, "backward");
      static_cast<void>(put(u, end));
      wait(end);
    }
  }
  Event put(std::uint32_t unit, const Event& after) {
    return engine_->put_grad(TensorId{unit}, view_of(std::span(source_)), ScalarType::fp32, after);
  }
  Event step() {
    return engine_->step({.by_group = std::span(&kGroup, 1), .max_norm = 1.0}).value().done;
  }
  // A step without a program around it, from rest.
  Nanoseconds step_alone() {
    const Nanoseconds begin = now();
    for (std::uint32_t u = kUnits; u-- > 0;) static_cast<void>(put(u, {}));
    wait(step());
    return now() - begin;
  }
  Nanoseconds step_behind_its_gradients() {
    for (std::uint32_t u = kUnits; u-- > 0;) wait(put(u, {}));
    const Nanoseconds begin = now();
    wait(step());
    return now() - begin;
  }
  // From one step() to the next, once the program is under way.
  double seconds_per_step(Nanoseconds forward_time, Nanoseconds backward_time) {
    constexpr int kWarm = 2, kTimed = 3;
    Nanoseconds begin{0};
    for (int i = 0; i < kWarm + kTimed; ++i) {
      if (i == kWarm) begin = now();
      forward(forward_time);
      backward(backward_time);
      static_cast<void>(step());
    }
    return in_seconds(now() - begin) / kTimed;
  }

 private:
  const std::vector<float> source_ = std::vector<float>(kUnitElements, 0.25F);
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Stream> compute_;
};

// The best possible step (docs: "The step is lazy"), with A = 1 and s = 0.
struct Alone {
  double forward, backward, io, pinned;
  double best() const {
    const double slots = static_cast<double>(kSlots) / kShards;
    return backward + std::max(forward, io * (1 - pinned) * (1 - slots) + forward / kUnits);
  }
};

std::uint64_t read_by_drive(const Program& program) {
  for (const Usage& usage : program.engine().stats().resources)
    if (usage.name == "nvme0") return usage.read_bytes;
  return 0;
}

TEST(Overlap, UpdatesRunUnderTheForwardOfEarlierUnits) {
  Program program(engine_options(StateHome::nvme));
  const Nanoseconds step = program.step_alone();
  const Nanoseconds pass = step / 2;
  program.forward(pass);
  program.backward(pass);
  const Nanoseconds begin = program.now();
  const Event done = program.step();
  std::vector<Nanoseconds> forward_ends;
  std::vector<bool> updating;
  for (std::uint32_t u = 0; u < kUnits; ++u) {
    program.wait(program.pass(u, pass / kUnits, "forward"));
    forward_ends.push_back(program.now() - begin);
    updating.push_back(!done.done());
  }
  EXPECT_LE(forward_ends.front(), pass / kUnits + step / 20);  // its shards were read already
  for (std::uint32_t u = 0; u + 2 < kUnits; ++u) EXPECT_TRUE(updating[u]) << "unit " << u;
  EXPECT_LE(forward_ends.back(), step + pass / kUnits);
}

// Nothing is read before; and by the time of the step, as much as the slots hold.
TEST(Overlap, ReadsBeginWithTheFirstGradient) {
  Program program(engine_options(StateHome::nvme));
  const Nanoseconds step = program.step_alone();
  const std::uint64_t before = read_by_drive(program);
  program.forward(step);
  EXPECT_EQ(read_by_drive(program), before);
  const Event unit = program.pass(kUnits - 1, step / kUnits, "backward");
  static_cast<void>(program.put(kUnits - 1, unit));
  EXPECT_FALSE(unit.done());
  EXPECT_EQ(read_by_drive(program), before);
  program.wait(unit);
  program.wait(program.pass(kUnits - 2, step / 4, "backward"));
  EXPECT_EQ(read_by_drive(program), before + kSlots * kShardBytes);
}

// With state on the device each shard comes down, is updated and goes up, over links of one speed.
// Once the gradients are in, a step is as long as its slowest part: all shards go up, those that
// the slots hold do not come down.
TEST(Overlap, APipelineIsAsFastAsItsSlowestPart) {
  for (const std::uint64_t update_rate : {2'000'000'000U, 500'000'000U}) {
    SimulationOptions simulation = machine();
    simulation.update_bytes_per_second = update_rate;
    Program on_device(engine_options(StateHome::hbm), simulation);
    static_cast<void>(on_device.step_alone());
    const double pipeline = in_seconds(on_device.step_behind_its_gradients());
    const double link =
        static_cast<double>(kStateBytes) / static_cast<double>(simulation.copy_bytes_per_second);
    Program in_dram(engine_options(StateHome::dram), simulation);
    const double update = in_seconds(in_dram.step_behind_its_gradients());
    const double ratio = std::max(link, update) / pipeline;
    std::printf("link alone %.3f ms, update alone %.3f ms, pipeline %.3f ms, ratio %.4f\n",
                1e3 * link, 1e3 * update, 1e3 * pipeline, ratio);
    EXPECT_GE(ratio, 0.97);
    EXPECT_LE(ratio, 1.0);
  }
}

TEST(Overlap, TheStepIsTheBestPossibleOneWithinTwoPercent) {
  Program alone(engine_options(StateHome::nvme));
  static_cast<void>(alone.step_alone());
  const Nanoseconds io = alone.step_alone();
  Program in_dram(engine_options(StateHome::dram));
  const Nanoseconds update = in_dram.step_alone();
  std::printf("T_io %.2f ms (bytes over rate %.2f ms), T_update %.2f ms\n", 1e3 * in_seconds(io),
              1e3 * 2 * kStateBytes / 200e6, 1e3 * in_seconds(update));
  for (const double pinned : {0.0, 1.0 / 3, 2.0 / 3})
    for (const double ratio : {0.3, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0}) {
      const auto pass = Nanoseconds(static_cast<std::int64_t>(double(io.count()) / ratio));
      const auto pinned_shards = static_cast<std::uint64_t>(pinned * kShards + 0.5);
      Program program(engine_options(StateHome::nvme, pinned_shards * kShardBytes));
      EXPECT_EQ(program.engine().stats().nvme_shards, kShards - pinned_shards);
      const double took = program.seconds_per_step(pass, pass);
      const double best = Alone{in_seconds(pass), in_seconds(pass), in_seconds(io), pinned}.best();
      std::printf("c %.2f, T_io %.1f T_f: %.2f ms, best %.2f ms, ratio %.4f\n", pinned, ratio,
                  1e3 * took, 1e3 * best, took / best);
      EXPECT_LE(took / best, 1.02) << "pinned " << pinned << ", T_io " << ratio << " T_f";
    }
}

}  // namespace
}  // namespace headrace
