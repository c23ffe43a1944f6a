// Another thread reads while a step is queued: what it reads is of one moment. On a real platform:
// a simulated one is of one thread.
#include <chrono>
#include <string>
#include <thread>

#include "tests/runtime/small_model.h"
#include "tests/support/gate.h"

namespace headrace {
namespace {

using namespace small;

constexpr TensorId kRead{0}, kHeldUp{1};
constexpr std::uint64_t kCount = 64 * 1024;

// All in DRAM, the first one in many shards.
Status build_two(Engine& engine) {
  HEADRACE_TRY(build_equal(engine, 2, kCount));
  const auto weights = values(kCount, 1);
  return engine.write(kRead, Kind::master, {0, kCount}, view_of(std::span(weights)));
}

testing::AssertionResult told(const Platform& platform, std::string_view what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (platform.describe().find(what) == std::string::npos) {
    if (std::chrono::steady_clock::now() > end)
      return testing::AssertionFailure() << what << ": " << platform.describe();
    std::this_thread::yield();
  }
  return testing::AssertionSuccess();
}

// The read is queued before the step, but behind a gradient that does not come: updates of what it
// reads, which have all they need, must not go before it.
TEST(ReadMeanwhile, OfAStepThatIsQueuedLaterItSeesNothing) {
  const auto platform = *Platform::open();
  EngineOptions options;
  options.state = StateHome::dram;
  options.shard_bytes = kShardBytes;
  const std::unique_ptr<Engine> engine = Engine::open(*platform, options).value();
  ASSERT_TRUE(build_two(*engine).ok());
  const auto gradient = values(kCount, 2);
  const ConstMemView source = view_of(std::span(gradient));
  const Event here = engine->put_grad(kRead, source, ScalarType::fp32);
  ASSERT_TRUE(engine->wait(here).ok());
  const Gate gate;
  const Event late = engine->put_grad(kHeldUp, source, ScalarType::fp32, gate.event());

  std::vector<float> seen(kCount);
  Status how;
  std::thread reader([&] {
    how = engine->read(kRead, Kind::master, {0, kCount}, view_of(std::span(seen)));
  });
  const std::string queued = std::to_string(1 + engine->stats().shards / 2) + " queued, front 'set";
  EXPECT_TRUE(told(*platform, queued));
  const Result<StepReport> step = engine->step(
      {.by_group = std::span(&kGroups[0], 1), .max_norm = 0, .skip_non_finite = false});
  ASSERT_TRUE(step.ok()) << step.status().to_string();
  EXPECT_TRUE(told(*platform, "that yield, front 'update' waits for optimizer"));
  gate.open();
  reader.join();
  EXPECT_TRUE(how.ok()) << how.to_string();
  EXPECT_EQ(seen, values(kCount, 1));
  EXPECT_TRUE(engine->wait(step->done).ok());
  EXPECT_TRUE(late.done());
  EXPECT_NE(floats_of(*engine, kRead, Kind::master).value(), values(kCount, 1));
}

}  // namespace
}  // namespace headrace
