// close() beside calls that run on other threads.
#include <atomic>
#include <thread>

#include "tests/runtime/faulty_model.h"
#include "tests/support/gate.h"

namespace headrace {
namespace {

using namespace small;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Works on the engine until it is refused because the engine is closed; gives what it was told.
using Loop = std::function<Status(Engine&)>;

Status until_refused(Engine& engine, const Loop& call, std::atomic<int>& started) {
  for (;;) {
    const Status how = call(engine);
    ++started;
    if (!how.ok() && how.message().find("must be alone") == std::string_view::npos) return how;
  }
}

Status read_all(Engine& engine) { return floats_of(engine, kBig, Kind::master).status(); }
Status hash_all(Engine& engine) { return engine.state_hash().status(); }
Status write_some(Engine& engine) {
  const std::vector<float> weights = values(spec(kBig).count, 5);
  return engine.write(kBig, Kind::master, {0, weights.size()},
                      view_of(std::span<const float>(weights)));
}
Status step_once(Engine& engine) { return train(engine, 0, 1); }
Status tell(Engine& engine) {
  static_cast<void>(engine.stats());
  return engine.drop_gradients();
}

class CloseBesideCalls : public testing::TestWithParam<GroundKind> {};

// Each round at another moment, with and without time.
TEST_P(CloseBesideCalls, EveryCallEndsAndNothingIsTouchedAfter) {
  const TemporaryFolder checkpoints;
  const auto save = [&](Engine& engine) { return engine.save(checkpoints.path() / "a"); };
  const auto load = [&](Engine& engine) { return engine.load(checkpoints.path() / "a").status(); };
  const std::vector<std::vector<Loop>> sets = {
      {read_all, write_some}, {save, read_all}, {load, tell}, {step_once, hash_all}, {save, load}};
  Faulty faulty(GetParam());
  if (faulty.missing()) GTEST_SKIP() << "no io_uring here";
  ASSERT_TRUE(faulty.open()->save(checkpoints.path() / "a").ok());
  for (int round = 0; round < 20; ++round) {
    auto engine = faulty.open();
    std::atomic<int> calls = 0;
    std::vector<std::thread> threads;
    for (const Loop& loop : sets[static_cast<std::size_t>(round) % sets.size()])
      threads.emplace_back([&, loop] {
        const Status how = until_refused(*engine, loop, calls);
        EXPECT_TRUE(how.code() == Code::invalid || how.code() == Code::cancelled ||
                    how.code() == Code::poisoned)
            << round << ": " << how.to_string();
      });
    while (calls < round / 5) std::this_thread::yield();
    const Status how = engine->close(round % 2 == 0 ? seconds(60) : Nanoseconds(0));
    EXPECT_TRUE(how.ok() || (round % 2 == 1 && how.code() == Code::timeout)) << how.to_string();
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(engine->close(seconds(60)).ok()) << round;
    EXPECT_EQ(faulty.platform->device().use(Home::host).used, 0u) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Grounds, CloseBesideCalls,
                         testing::Values(GroundKind::posix, GroundKind::uring), ground_name);

// A gradient that is refused in any case, and why.
std::string refusal_of_frozen(Engine& engine) {
  const auto source = gradient(kFrozen, 0);
  return engine.put_grad(kFrozen, view_of(std::span(source)), ScalarType::fp32)
      .status()
      .to_string();
}

// A step that waits for a gradient whose source does not come.
TEST(Close, NamesTheCallsThatStillRunAndMayBeCalledAgain) {
  Faulty faulty(GroundKind::posix);
  auto engine = faulty.open();
  const Gate gate;
  const auto source = gradient(kBig, 0);
  static_cast<void>(
      engine->put_grad(kBig, view_of(std::span(source)), ScalarType::fp32, gate.event()));
  Status stepped;
  std::thread steps([&] { stepped = engine->step(step_options()).status(); });
  while (refusal_of_frozen(*engine).find("must be alone") == std::string::npos)
    std::this_thread::yield();
  const Status how = engine->close(milliseconds(1));
  EXPECT_EQ(how.code(), Code::timeout);
  EXPECT_NE(how.message().find("1 of the engine's calls"), std::string_view::npos)
      << how.to_string();
  EXPECT_GT(engine->stats().held.dram(), 0u);
  gate.open();
  steps.join();
  EXPECT_EQ(stepped.code(), Code::invalid) << stepped.to_string();
  EXPECT_TRUE(engine->close(seconds(60)).ok());
  EXPECT_EQ(engine->stats().held.dram(), 0u);
  EXPECT_EQ(faulty.platform->device().use(Home::host).used, 0u);
}

TEST(Close, FromTwoThreadsBothEndWhenItIsClosed) {
  Faulty faulty(GroundKind::posix);
  for (int round = 0; round < 20; ++round) {
    auto engine = faulty.open();
    ASSERT_TRUE(train(*engine, 0, 1).ok());
    std::thread other([&] { EXPECT_TRUE(engine->close(seconds(60)).ok()); });
    EXPECT_TRUE(engine->close(seconds(60)).ok());
    EXPECT_EQ(faulty.platform->device().use(Home::host).used, 0u);
    other.join();
  }
}

// What did not end in time ends later: then a second close gives all of it back.
TEST(Close, ASecondCloseGivesBackWhatTheFirstCouldNot) {
  Faulty faulty(GroundKind::posix);
  auto engine = faulty.open();
  const Gate gate;
  const auto source = gradient(kBig, 0);
  const Event in =
      engine->put_grad(kBig, view_of(std::span(source)), ScalarType::fp32, gate.event());
  EXPECT_EQ(engine->close(milliseconds(1)).code(), Code::timeout);
  EXPECT_GT(faulty.platform->device().use(Home::host).used, 0u);
  EXPECT_EQ(engine->acquire(UnitId{0}).status().code(), Code::invalid);
  gate.open();
  EXPECT_TRUE(engine->close(seconds(60)).ok());
  EXPECT_EQ(in.status().code(), Code::cancelled);
  EXPECT_EQ(faulty.platform->device().use(Home::host).used, 0u);
}

}  // namespace
}  // namespace headrace
