// Engines that end, or wait, with everything in flight: at every moment of a step, and with one
// request that never completes.
#include <algorithm>
#include <array>

#include "tests/runtime/faulty_model.h"
#include "tests/support/gate.h"

namespace headrace {
namespace {

using namespace small;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array kRealGrounds = {GroundKind::posix, GroundKind::uring};

std::uint64_t held(Platform& platform) {
  return platform.device().use(Home::host).used + platform.device().use(Home::device).used;
}

void expect_good_engine(Faulty& faulty) {
  const auto engine = faulty.open();
  ASSERT_TRUE(train(*engine, 0, 2).ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(2));
}

// Queues everything that a step consists of, the gradients too, and waits for none of it. The
// sources outlive the engine.
struct InFlight {
  explicit InFlight(Faulty& faulty, const EngineOptions& options) : engine(faulty.open(options)) {
    for (const TensorId tensor : {kBig, kTable, kHalf, kNorm, kOnce}) {
      sources.push_back(gradient(tensor, 0));
      static_cast<void>(
          engine->put_grad(tensor, view_of(std::span(sources.back())), ScalarType::fp32));
    }
    StepOptions step = step_options();
    step.max_norm = 0;
    step.skip_non_finite = false;
    done = engine->step(step).value().done;
  }

  std::vector<std::vector<float>> sources;
  std::unique_ptr<Engine> engine;
  Event done;
};

EngineOptions options_with(const Faulty& faulty, ParamHome params) {
  EngineOptions options = faulty.options();
  options.params = params;
  return options;
}

// How long a step takes, in virtual time.
Nanoseconds time_of_step() {
  Faulty faulty(GroundKind::simulated);
  InFlight in_flight(faulty, faulty.options());
  const Nanoseconds begin = faulty.platform->clock().now();
  EXPECT_TRUE(faulty.wait(in_flight.done).ok());
  return faulty.platform->clock().now() - begin;
}

// Nothing is lost by it: the memory is given back, and the next engine on the platform is right.
TEST(Unfinished, AnEngineMayGoAtAnyMomentOfAStep) {
  const Nanoseconds step = time_of_step();
  constexpr int kMoments = 40;
  for (int moment = 0; moment <= kMoments + 4; ++moment) {
    SCOPED_TRACE(testing::Message() << "moment " << moment << ", also the seed");
    Faulty faulty(GroundKind::simulated, static_cast<std::uint64_t>(moment));
    constexpr std::array kHomes = {ParamHome::dram, ParamHome::hbm, ParamHome::streamed};
    InFlight in_flight(faulty, options_with(faulty, kHomes[static_cast<std::size_t>(moment) % 3]));
    static_cast<void>(faulty.platform->wait(in_flight.done, step * moment / kMoments));
    const bool over = in_flight.done.done();  // times differ a little with the seed
    EXPECT_TRUE(moment < kMoments - 4 ? !over : moment < kMoments + 4 || over);
    in_flight.engine.reset();
    EXPECT_TRUE(in_flight.done.done());
    EXPECT_EQ(held(*faulty.platform), 0u);
    if (moment % 5 == 0) expect_good_engine(faulty);
  }
}

// The same with one request, each in turn, that never completes: destruction ends, what the kernel
// may still write to is kept, and so does the process go on.
TEST(Unfinished, AnEngineMayGoWithARequestThatNeverCompletes) {
  const Nanoseconds step = time_of_step();
  for (const Direction direction : {Direction::read, Direction::write})
    for (std::uint64_t request = 0; request < 8; ++request) {
      SCOPED_TRACE(testing::Message() << "request " << request << ", also the seed");
      Faulty faulty(GroundKind::simulated, request);
      InFlight in_flight(faulty, faulty.options());
      faulty.strike(FaultKind::never_completes, direction, request);
      static_cast<void>(
          faulty.platform->wait(in_flight.done, step * static_cast<std::int64_t>(request + 2) / 8));
      const Nanoseconds begin = faulty.platform->clock().now();
      in_flight.engine.reset();
      EXPECT_LE(faulty.platform->clock().now() - begin, seconds(200));
      EXPECT_EQ(held(*faulty.platform) > 0, faulty.script->struck() > 0);
    }
}

TEST(Unfinished, CloseSaysThatSomethingDidNotEndAndEndsItself) {
  for (const GroundKind kind : {GroundKind::simulated, GroundKind::posix, GroundKind::uring}) {
    Faulty faulty(kind);
    if (faulty.missing()) continue;
    InFlight in_flight(faulty, faulty.options());
    EXPECT_TRUE(faulty.wait(in_flight.done).ok());
    faulty.strike(FaultKind::never_completes, Direction::read, 1);
    std::vector<std::vector<float>> sources = {gradient(kBig, 0)};
    static_cast<void>(
        in_flight.engine->put_grad(kBig, view_of(std::span(sources[0])), ScalarType::fp32));
    const StepReport report = in_flight.engine->step(step_options()).value();
    EXPECT_EQ(faulty.platform->wait(report.done, milliseconds(50)).code(), Code::timeout);
    EXPECT_EQ(faulty.script->struck(), 1u);
    const Status how = in_flight.engine->close(milliseconds(50));
    EXPECT_EQ(how.code(), Code::timeout) << how.to_string();
    EXPECT_FALSE(report.done.done());
    EXPECT_EQ(in_flight.engine->acquire(UnitId{0}).status().code(), Code::invalid);
    EXPECT_GT(held(*faulty.platform), 0u);  // never given to anybody else
    in_flight.engine.reset();
    faulty.platform.reset();
  }
}

// A caller's own wait changes nothing; the engine's, past its deadline, is the end.
TEST(Unfinished, PastTheDeadlineTheEngineIsPoisoned) {
  Faulty faulty(GroundKind::simulated);
  EngineOptions options = faulty.options();
  options.deadline = milliseconds(500);
  const auto engine = faulty.open(options);
  ASSERT_TRUE(train(*engine, 0, 1).ok());
  ASSERT_TRUE(put_all(*engine, 1).ok());
  faulty.strike(FaultKind::never_completes, Direction::read);
  const Event done = engine->step(step_options()).value().done;
  EXPECT_EQ(faulty.platform->wait(done, milliseconds(100)).code(), Code::timeout);
  EXPECT_TRUE(engine->acquire(UnitId{0}).ok());
  const Nanoseconds begin = faulty.platform->clock().now();
  const Status how = engine->wait(done);
  EXPECT_EQ(how.code(), Code::timeout) << how.to_string();
  EXPECT_NE(how.message().find("nvme0"), std::string_view::npos) << how.to_string();
  EXPECT_LE(faulty.platform->clock().now() - begin, milliseconds(500));
  std::vector<float> one(1);
  EXPECT_EQ(engine->read(kNorm, Kind::master, {0, 1}, view_of(std::span(one))).code(),
            Code::poisoned);
  EXPECT_EQ(engine->step(step_options()).status().code(), Code::poisoned);
  EXPECT_EQ(engine->close(milliseconds(10)).code(), Code::timeout);
}

TEST(Unfinished, AReadThatNeverCompletesIsATimeoutWithinTheDeadline) {
  Faulty faulty(GroundKind::simulated);
  EngineOptions options = faulty.options();
  options.deadline = milliseconds(500);
  const auto engine = faulty.open(options);
  ASSERT_TRUE(train(*engine, 0, 1).ok());
  ASSERT_TRUE(floats_of(*engine, kHalf, Kind::master).ok());
  faulty.strike(FaultKind::never_completes, Direction::read);
  const Nanoseconds begin = faulty.platform->clock().now();
  EXPECT_EQ(floats_of(*engine, kBig, Kind::master).status().code(), Code::timeout);
  EXPECT_LE(faulty.platform->clock().now() - begin, milliseconds(500));
  EXPECT_EQ(engine->acquire(UnitId{0}).status().code(), Code::poisoned);
  EXPECT_EQ(engine->close(milliseconds(10)).code(), Code::timeout);
}

TEST(Unfinished, ARealEngineMayGoWhileAStepRuns) {
  for (const GroundKind kind : kRealGrounds) {
    Faulty faulty(kind);
    if (faulty.missing()) continue;
    for (std::uint32_t until = 0; until <= kUnits; ++until) {
      InFlight in_flight(
          faulty, options_with(faulty, until % 2 == 0 ? ParamHome::dram : ParamHome::streamed));
      if (until < kUnits) {
        const Event ready = in_flight.engine->acquire(UnitId{until}).value().ready();
        EXPECT_TRUE(faulty.wait(ready).ok());
      }
      in_flight.engine.reset();
      EXPECT_TRUE(in_flight.done.done());
      EXPECT_EQ(held(*faulty.platform), 0u);
    }
    expect_good_engine(faulty);
  }
}

// With no time at all to end in, what is in use is kept and not freed.
TEST(Unfinished, ClosedWithoutTimeItKeepsWhatIsStillInUse) {
  for (const GroundKind kind : kRealGrounds) {
    Faulty faulty(kind);
    if (faulty.missing()) continue;
    for (int i = 0; i < 10; ++i) {
      InFlight in_flight(faulty, faulty.options());
      const Status how = in_flight.engine->close(Nanoseconds(0));
      EXPECT_TRUE(how.ok() || how.code() == Code::timeout) << how.to_string();
      in_flight.engine.reset();
      EXPECT_TRUE(faulty.wait(in_flight.done.over()).ok());
    }
    expect_good_engine(faulty);
  }
}

// The gradient's source does not come, and then it does: the engine is gone by then.
TEST(Unfinished, AnEngineMayGoBeforeWhatItsGradientsFollow) {
  Faulty faulty(GroundKind::posix);
  const Gate gate;
  const auto source = gradient(kBig, 0);
  auto engine = faulty.open();
  const Event in =
      engine->put_grad(kBig, view_of(std::span(source)), ScalarType::fp32, gate.event());
  EXPECT_EQ(engine->close(milliseconds(20)).code(), Code::timeout);
  engine.reset();
  EXPECT_FALSE(in.done());  // its source may still be written to
  gate.open();
  EXPECT_EQ(faulty.wait(in).code(), Code::cancelled);
}

// A read that came too late does not write to memory that is its caller's again.
TEST(Unfinished, WhatACallDidNotWaitForDoesNotTouchItsMemory) {
  Faulty faulty(GroundKind::simulated);
  EngineOptions options = faulty.options();
  options.deadline = seconds(1);
  const auto engine = faulty.open(options);
  for (const TensorId other : {kHalf, kOnce, kNorm})  // the slots hold something else
    ASSERT_TRUE(floats_of(*engine, other, Kind::master).ok());
  Fault late;
  late.kind = FaultKind::delay;
  late.first = faulty.script->seen(Direction::read);
  late.time = seconds(5);
  faulty.script->add(late);
  std::vector<float> to(100, 7.0F);
  EXPECT_EQ(engine->read(kTable, Kind::master, {0, 100}, view_of(std::span(to))).code(),
            Code::timeout);
  EXPECT_EQ(faulty.script->struck(), 1u);
  const Gate never;
  static_cast<void>(faulty.platform->wait(never.event(), seconds(10)));  // it comes now
  EXPECT_EQ(to, std::vector<float>(100, 7.0F));
  EXPECT_TRUE(engine->close(seconds(60)).ok());
}

}  // namespace
}  // namespace headrace
