// Sealing: models without anything to train, budgets that cannot work, and what is left after a
// seal that failed.
#include "runtime/seal.h"

#include "runtime/checksum.h"
#include "tests/runtime/small_model.h"

namespace headrace {
namespace {

using namespace small;

constexpr std::array kParamHomes = {ParamHome::dram, ParamHome::hbm, ParamHome::streamed};

// Everything that a program does with a model, whatever is in it.
void run_through(Platform& platform, const EngineOptions& options,
                 const std::vector<TensorSpec>& specs) {
  const auto engine = Engine::open(platform, options).value();
  for (const TensorSpec& spec : specs) ASSERT_TRUE(engine->add(spec).ok());
  ASSERT_TRUE(engine->seal().ok());
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t t = 0; t < specs.size(); ++t) {
      const Lease lease = engine->acquire(specs[t].unit).value();
      EXPECT_TRUE(engine->wait(lease.ready()).ok());
      EXPECT_EQ(lease.param(TensorId{t}).size, specs[t].count * size_of(specs[t].param));
    }
    bool any = false;
    for (std::uint32_t t = 0; t < specs.size(); ++t) {
      if (!specs[t].trainable) continue;
      any = true;
      EXPECT_TRUE(
          engine->wait(engine->put_grad(TensorId{t}, ConstMemView(), ScalarType::fp32)).ok());
    }
    const StepReport report = engine->step(step_options()).value();
    EXPECT_EQ(report.applied, any);
    EXPECT_TRUE(engine->wait(report.done).ok());
    EXPECT_EQ(report.grad_norm, 0.0);
  }
  EXPECT_EQ(engine->state_hash().value(), checksum({}));
  EXPECT_EQ(engine->stats().parameters, 0u);
  EXPECT_EQ(engine->stats().nvme_read_bytes + engine->stats().nvme_written_bytes, 0u);
  ASSERT_TRUE(engine->save("/disk0/checkpoint").ok());
  EXPECT_TRUE(engine->load("/disk0/checkpoint").ok());
  EXPECT_TRUE(engine->close(std::chrono::seconds(1)).ok());
}

void run_through_everywhere(const std::vector<TensorSpec>& specs) {
  for (const Place place : {Place::dram, Place::hbm, Place::nvme, Place::mixed})
    for (const ParamHome params : kParamHomes) {
      SCOPED_TRACE(testing::Message() << "place " << int(place) << " parameters " << int(params));
      const auto platform = Platform::simulate();
      EngineOptions options = options_of({.place = place}, "/disk0");
      options.params = params;
      run_through(*platform, options, specs);
    }
}

TEST(Seal, AnEmptyModelIsLegal) { run_through_everywhere({}); }

TEST(Seal, SharesOfPathsChangeNoBit) {
  std::vector<std::uint64_t> hashes;
  for (const std::vector<unsigned>& shares : {std::vector<unsigned>{}, {1, 1}, {5, 2}}) {
    const auto platform = Platform::simulate();
    EngineOptions options = options_of({.place = Place::nvme}, "/disk0");
    options.nvme_paths = {"/disk0", "/disk1"};
    options.nvme_shares = shares;
    const auto engine = Engine::open(*platform, options).value();
    ASSERT_TRUE(build(*engine).ok());
    ASSERT_TRUE(train(*engine, 0, 3).ok());
    hashes.push_back(engine->state_hash().value());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

TEST(Seal, AModelOfEmptyTensorsIsLegal) {
  run_through_everywhere({{.name = "a"},
                          {.name = "b", .unit = UnitId{1}, .param = ScalarType::fp32},
                          {.name = "c", .unit = UnitId{1}, .trainable = false},
                          {.name = "d", .unit = UnitId{2}, .alias_of = TensorId{0}}});
}

TEST(Seal, AFrozenModelHasParametersAndNoState) {
  run_through_everywhere({{.name = "a", .count = 1'000, .trainable = false},
                          {.name = "b",
                           .unit = UnitId{1},
                           .count = 3,
                           .param = ScalarType::fp32,
                           .trainable = false}});
}

TEST(Seal, ATensorLargerThanManyShardsIsCutAndWhole) {
  for (const Place place : {Place::dram, Place::nvme, Place::mixed}) {
    const auto platform = Platform::simulate();
    EngineOptions options = options_of({.place = place}, "/disk0");
    options.shard_bytes = 1;  // the least: kShardElements
    if (place == Place::mixed) options.dram_bytes = options.hbm_bytes = 200 * kKiB;
    const auto engine = Engine::open(*platform, options).value();
    constexpr std::uint64_t kCount = 100'001;
    ASSERT_TRUE(engine->add({.name = "long", .count = kCount}).ok());
    ASSERT_TRUE(engine->seal().ok());
    EXPECT_EQ(engine->stats().shards, 49u);  // of 2048 elements
    const std::vector<float> weights = values(kCount, 3);
    ASSERT_TRUE(
        engine->write(TensorId{0}, Kind::master, {0, kCount}, view_of(std::span(weights))).ok());
    std::vector<float> back(kCount);
    ASSERT_TRUE(
        engine->read(TensorId{0}, Kind::master, {0, kCount}, view_of(std::span(back))).ok());
    EXPECT_EQ(back, weights);
  }
}

TEST(Seal, PlacementIsTheOneAskedForAndIsCounted) {
  for (const Setting& setting : settings()) {
    if (setting.ground != GroundKind::simulated) continue;
    SCOPED_TRACE(name_of(setting));
    Running running(setting);
    const Stats stats = running->stats();
    EXPECT_EQ(stats.parameters, 5'000u + 300 + 30'000 + 2'500 + 1'000);
    EXPECT_EQ(stats.held.dram_state > 0,
              setting.place == Place::dram || setting.place == Place::mixed);
    EXPECT_EQ(stats.held.hbm_state > 0,
              setting.place == Place::hbm || setting.place == Place::mixed);
    EXPECT_EQ(stats.held.nvme_state > 0,
              setting.place == Place::nvme || setting.place == Place::mixed);
    EXPECT_EQ(stats.nvme_shards == stats.shards, setting.place == Place::nvme);
    EXPECT_EQ(running.ground.platform().device().use(Home::host).used, stats.held.dram());
    EXPECT_EQ(running.ground.platform().device().use(Home::device).used, stats.held.hbm_state);
    EXPECT_FALSE(stats.placement.empty());
  }
}

std::uint64_t free_on_disk(Platform& platform) {
  return platform.queue_for("/disk0").value()->folders().free_bytes("/disk0").value();
}

// Too little of everything, from nothing on up: each refusal leaves nothing behind, and the sum of
// what is held when it works is the budget that was needed.
TEST(Seal, ABudgetOfTheMachineThatIsTooSmallLeavesNothingAllocated) {
  EngineOptions options = options_of({.place = Place::mixed}, "/disk0");
  options.params = ParamHome::streamed;
  int refused = 0;
  for (std::uint64_t bytes = 0;; bytes += 256 * kKiB) {
    SimulationOptions simulation;
    simulation.host_bytes = bytes;
    const auto platform = Platform::simulate(simulation);
    const std::uint64_t free = free_on_disk(*platform);
    const auto engine = Engine::open(*platform, options).value();
    ASSERT_TRUE(add_all(*engine).ok());
    const Status how = engine->seal();
    if (how.ok()) break;
    ++refused;
    EXPECT_EQ(how.code(), Code::out_of_memory) << how.to_string();
    EXPECT_NE(how.message().find("missing"), std::string_view::npos) << how.to_string();
    EXPECT_EQ(platform->device().use(Home::host).used, 0u);
    EXPECT_EQ(platform->device().use(Home::device).used, 0u);
    EXPECT_EQ(free_on_disk(*platform), free);
    EXPECT_EQ(engine->seal().code(), Code::out_of_memory);  // may be tried again
    EXPECT_EQ(engine->acquire(UnitId{0}).status().code(), Code::invalid);
  }
  EXPECT_GE(refused, 4);
}

TEST(Seal, ADeviceThatIsTooSmallLeavesNothingAllocated) {
  for (const ParamHome params : {ParamHome::hbm, ParamHome::streamed}) {
    SimulationOptions simulation;
    simulation.device_bytes = 64 * kKiB;
    const auto platform = Platform::simulate(simulation);
    EngineOptions options = options_of({.place = Place::nvme}, "/disk0");
    options.params = params;
    const auto engine = Engine::open(*platform, options).value();
    ASSERT_TRUE(add_all(*engine).ok());
    const Status how = engine->seal();
    EXPECT_EQ(how.code(), Code::out_of_memory) << how.to_string();
    EXPECT_NE(how.message().find("parameters on the device"), std::string_view::npos);
    EXPECT_EQ(platform->device().use(Home::host).used, 0u);
    EXPECT_EQ(platform->device().use(Home::device).used, 0u);
  }
}

TEST(Seal, ABudgetForStateThatCannotWorkIsRefusedBeforeAnythingIsAllocated) {
  const std::pair<std::function<void(EngineOptions&)>, Code> wrong[] = {
      {[](EngineOptions& o) { o.dram_bytes = 100 * kKiB; }, Code::out_of_memory},
      {[](EngineOptions& o) { o.nvme_bytes = 100 * kKiB; }, Code::out_of_space},
      {[](EngineOptions& o) {
         o.state = StateHome::hbm;
         o.hbm_bytes = 100 * kKiB;
       },
       Code::out_of_memory},
  };
  for (const auto& [change, code] : wrong) {
    const auto platform = Platform::simulate();
    EngineOptions options = options_of({.place = Place::nvme}, "/disk0");
    change(options);
    const auto engine = Engine::open(*platform, options).value();
    ASSERT_TRUE(add_all(*engine).ok());
    const Status how = engine->seal();
    EXPECT_EQ(how.code(), code) << how.to_string();
    EXPECT_NE(how.message().find(format_bytes(100 * kKiB)), std::string_view::npos)
        << how.to_string();
    EXPECT_EQ(platform->device().use(Home::host).peak, 0u);
  }
}

TEST(Seal, StateIsStripedOverEveryFolder) {
  for (const GroundKind kind : {GroundKind::simulated, GroundKind::posix}) {
    Ground ground(kind);
    EngineOptions options = options_of({.place = Place::nvme}, "");
    options.nvme_paths = ground.folders(3);
    const auto striped = Engine::open(ground.platform(), options).value();
    ASSERT_TRUE(build(*striped).ok());
    ASSERT_TRUE(train(*striped, 0, 3).ok());
    const Running plain({.place = Place::dram});
    ASSERT_TRUE(train(*plain, 0, 3).ok());
    EXPECT_EQ(hash(*striped).value(), hash(*plain).value());
  }
}

}  // namespace
}  // namespace headrace
