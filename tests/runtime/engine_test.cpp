// An engine from open to close: what may be called when, and from which threads.
#include "runtime/engine.h"

#include <thread>

#include "tests/runtime/wrong_calls.h"

namespace headrace {
namespace {

using namespace small;

// Every call that needs a sealed engine.
std::vector<std::pair<const char*, std::function<Status(Engine&)>>> calls_that_need_seal() {
  return {
      {"acquire", [](Engine& e) { return e.acquire(UnitId{0}).status(); }},
      {"put_grad", [](Engine& e) { return put(e, kNorm, 1); }},
      {"step", [](Engine& e) { return e.step(step_options()).status(); }},
      {"drop_gradients", [](Engine& e) { return e.drop_gradients(); }},
      {"read",
       [](Engine& e) {
         return read_some(e, kNorm, Kind::master, {0, 1}, 4);
       }},
      {"write",
       [](Engine& e) {
         return write_some(e, kNorm, Kind::master, {0, 1}, 4);
       }},
      {"steps_of", [](Engine& e) { return e.steps_of(kNorm).status(); }},
      {"state_hash", [](Engine& e) { return e.state_hash().status(); }},
      {"save", [](Engine& e) { return e.save("/disk0/checkpoint"); }},
      {"load", [](Engine& e) { return e.load("/disk0/checkpoint").status(); }},
  };
}

TEST(Engine, BeforeSealOnlyAddIsOpen) {
  const auto platform = Platform::simulate();
  const auto engine = Engine::open(*platform, {.threads = 1}).value();
  ASSERT_TRUE(add_all(*engine).ok());
  for (const auto& [name, call] : calls_that_need_seal())
    expect_refused({name, call, {"seal"}}, *engine);
  EXPECT_EQ(engine->stats().held.dram(), 0u);
  ASSERT_TRUE(engine->seal().ok());
  for (const auto& [name, call] : calls_that_need_seal()) EXPECT_TRUE(call(*engine).ok()) << name;
}

TEST(Engine, AfterCloseEveryCallIsRefused) {
  const Running running({GroundKind::simulated, Place::nvme, StateFormat::split});
  ASSERT_TRUE(train(*running, 0, 1).ok());
  ASSERT_TRUE(running->close(std::chrono::seconds(10)).ok());
  for (const auto& [name, call] : calls_that_need_seal())
    expect_refused({name, call, {"close"}}, *running);
  EXPECT_EQ(running->add({.name = "more"}).status().code(), Code::invalid);
  EXPECT_EQ(running->seal().code(), Code::invalid);
  EXPECT_EQ(running->stats().held.dram(), 0u);
  EXPECT_EQ(running->stats().steps, 1u);
  EXPECT_TRUE(running->close(std::chrono::seconds(10)).ok());
}

TEST(Engine, AnEngineIsClosedUnderALeaseWithAWarning) {
  Running running({GroundKind::posix, Place::dram, StateFormat::split});
  Lease lease = running->acquire(UnitId{2}).value();
  ASSERT_TRUE(running->close(std::chrono::seconds(10)).ok());
  ASSERT_EQ(running.ground.said().size(), 1u);
  EXPECT_NE(running.ground.said()[0].find("unit 2"), std::string::npos);
  EXPECT_EQ(lease.param(kHalf).size, 0u);
  lease.release();
}

// Not on a simulated platform, which is of one thread.
TEST(Engine, CallsMayComeFromSeveralThreads) {
  const Setting setting{GroundKind::posix, Place::nvme, StateFormat::split};
  const Running many(setting), one(setting);
  for (int number = 0; number < 3; ++number) {
    std::vector<std::thread> threads;
    for (const TensorId tensor : with_state())
      threads.emplace_back([&many, tensor, number] {
        EXPECT_TRUE(put(*many, tensor, static_cast<std::uint64_t>(number)).ok());
        EXPECT_TRUE(floats_of(*many, tensor, Kind::exp_avg).ok());
        EXPECT_TRUE(many->acquire(spec(tensor).unit).ok());
        EXPECT_EQ(many->steps_of(kBig).value(), static_cast<std::uint64_t>(number));
        EXPECT_GT(many->stats().held.nvme_state, 0u);
      });
    for (std::thread& thread : threads) thread.join();
    for (const TensorId tensor : with_state())
      ASSERT_TRUE(put(*one, tensor, static_cast<std::uint64_t>(number)).ok());
    for (const Running* running : {&many, &one})
      ASSERT_TRUE((*running)->step(step_options()).value().applied);
  }
  EXPECT_EQ(hash(*many).value(), hash(*one).value());
}

}  // namespace
}  // namespace headrace
