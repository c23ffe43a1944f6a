// What a step does, counts and reports: subsets, skips, aliases, accumulation, and what it waits
// for.
#include "runtime/step_call.h"

#include <limits>

#include "tests/runtime/small_model.h"
#include "tests/support/gate.h"

namespace headrace {
namespace {

using namespace small;
using std::chrono::seconds;

constexpr Setting kOnDisk{GroundKind::simulated, Place::nvme, StateFormat::split};

Status put_values(Engine& engine, TensorId tensor, const std::vector<float>& source) {
  return engine.wait(
      engine.put_grad(tensor, view_of(std::span<const float>(source)), ScalarType::fp32));
}

StepOptions neither_clipped_nor_checked() {
  StepOptions options = step_options();
  options.max_norm = 0;
  options.skip_non_finite = false;
  return options;
}

TEST(Step, OnlyAppliedStepsWithAGradientAreCounted) {
  const Running running(kOnDisk);
  EXPECT_EQ(steps_of(*running), std::vector<std::uint64_t>(kTensors, 0));
  ASSERT_TRUE(train(*running, 0, 2).ok());
  ASSERT_TRUE(put(*running, kBig, 2).ok());
  ASSERT_TRUE(running->step(step_options()).value().applied);
  ASSERT_TRUE(put(*running, kTied, 3).ok());
  ASSERT_TRUE(running->step(step_options()).value().applied);
  // table, norm, frozen, big, half, empty, once, tied
  EXPECT_EQ(steps_of(*running), (std::vector<std::uint64_t>{3, 2, 0, 3, 2, 0, 2, 3}));
  EXPECT_EQ(running->stats().steps, 4u);
}

TEST(Step, TensorsWithoutAGradientDoNotMove) {
  for (const Place place : {Place::dram, Place::hbm, Place::nvme}) {
    const Running running({.place = place});
    ASSERT_TRUE(train(*running, 0, 2).ok());
    std::vector<std::vector<float>> before;
    for (const TensorId tensor : with_state())
      for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq})
        before.push_back(floats_of(*running, tensor, kind).value());
    ASSERT_TRUE(put(*running, kNorm, 9).ok());  // shares its unit, not its shards
    ASSERT_TRUE(put(*running, kOnce, 9).ok());
    ASSERT_TRUE(running->step(step_options()).value().applied);
    std::size_t next = 0;
    for (const TensorId tensor : with_state())
      for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq}) {
        const bool moves = tensor == kNorm || tensor == kOnce;
        EXPECT_EQ(floats_of(*running, tensor, kind).value() == before[next++], !moves)
            << spec(tensor).name;
      }
  }
}

// kTable and kBig lie in many shards of a group of their own; two tensors of one shard are told
// apart as well.
TEST(Step, OneTensorOfASharedShardMovesAlone) {
  const auto platform = Platform::simulate();
  const auto engine = Engine::open(*platform, options_of({.place = Place::nvme}, "/disk0")).value();
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(engine->add({.name = name, .count = 300}).ok());
  ASSERT_TRUE(engine->seal().ok());
  ASSERT_EQ(engine->stats().shards, 1u);
  ASSERT_TRUE(put_values(*engine, TensorId{1}, values(300, 1)).ok());
  ASSERT_TRUE(engine->step(step_options()).value().applied);
  for (std::uint32_t t = 0; t < 3; ++t) {
    std::vector<float> moment(300);
    ASSERT_TRUE(
        engine->read(TensorId{t}, Kind::exp_avg, {0, 300}, view_of(std::span(moment))).ok());
    const bool still = std::ranges::all_of(moment, [](float v) { return v == 0; });
    EXPECT_EQ(still, t != 1);
    EXPECT_EQ(engine->steps_of(TensorId{t}).value(), t == 1 ? 1u : 0u);
  }
}

TEST(Step, AStepWithoutGradientsDoesNothingAndSaysSo) {
  const Running running(kOnDisk);
  const std::uint64_t before = hash(*running).value();
  const StepReport report = running->step(step_options()).value();
  EXPECT_FALSE(report.applied);
  EXPECT_NE(report.why.find("no gradient"), std::string::npos);
  EXPECT_TRUE(report.done.done());
  EXPECT_FALSE(report.bad_tensor.has_value());
  EXPECT_EQ(hash(*running).value(), before);
  EXPECT_EQ(running->stats().steps, 0u);
}

// The tensor and the element that are reported are the first in order of add, whatever was put
// first.
TEST(Step, ASkippedStepNamesTheFirstBadElementAndChangesNothing) {
  for (const Setting& setting : settings()) {
    if (setting.ground != GroundKind::simulated) continue;
    SCOPED_TRACE(name_of(setting));
    const Running running(setting);
    ASSERT_TRUE(train(*running, 0, 2).ok());
    const std::uint64_t before = hash(*running).value();
    const auto steps = steps_of(*running);
    std::vector<float> half = gradient(kHalf, 1), big = gradient(kBig, 1);
    half[0] = std::numeric_limits<float>::infinity();
    big[29'999] = -std::numeric_limits<float>::infinity();
    big[12'345] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_TRUE(put_values(*running, kHalf, half).ok());
    ASSERT_TRUE(put(*running, kTable, 1).ok());
    ASSERT_TRUE(put_values(*running, kBig, big).ok());
    const StepReport report = running->step(step_options()).value();
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(report.bad_tensor, kBig);
    EXPECT_EQ(report.bad_index, 12'345u);
    EXPECT_NE(report.why.find("\"big\""), std::string::npos) << report.why;
    EXPECT_NE(report.why.find("12345"), std::string::npos) << report.why;
    EXPECT_TRUE(report.done.done());
    EXPECT_EQ(hash(*running).value(), before);
    EXPECT_EQ(steps_of(*running), steps);
    EXPECT_EQ(running->stats().skipped_steps, 1u);
    EXPECT_EQ(running->stats().steps, 2u);
  }
}

TEST(Step, ABadElementIsFoundInAnyBlockOfItsTensor) {
  const auto platform = Platform::simulate();
  const auto engine = Engine::open(*platform, {.threads = 1}).value();
  ASSERT_TRUE(engine->add({.name = "long", .count = 200'000}).ok());
  ASSERT_TRUE(engine->seal().ok());
  for (const std::uint64_t at : {0UL, 65'535UL, 65'536UL, 131'071UL, 199'999UL}) {
    std::vector<float> source(200'000, 1e-3F);
    source[at] = std::numeric_limits<float>::quiet_NaN();
    source[199'999] = std::numeric_limits<float>::infinity();
    ASSERT_TRUE(put_values(*engine, TensorId{0}, source).ok());
    EXPECT_EQ(engine->step(step_options()).value().bad_index, at);
  }
}

// After a skip, and whatever came between, the program goes on as if it had not been.
TEST(Step, GradientsOfASkippedStepAndDroppedOnesLeaveNoTrace) {
  const Running disturbed(kOnDisk), plain(kOnDisk);
  for (int number = 0; number < 3; ++number) {
    std::vector<float> bad = gradient(kBig, 50);
    bad[0] = std::numeric_limits<float>::infinity();
    ASSERT_TRUE(put(*disturbed, kOnce, 50).ok());
    ASSERT_TRUE(put_values(*disturbed, kBig, bad).ok());
    ASSERT_FALSE(disturbed->step(step_options()).value().applied);
    ASSERT_TRUE(put_all(*disturbed, 60).ok());
    ASSERT_TRUE(disturbed->drop_gradients().ok());
    ASSERT_FALSE(disturbed->step(step_options()).value().applied);
    for (const Running* running : {&disturbed, &plain})
      ASSERT_TRUE(train(**running, number, number + 1).ok());
  }
  EXPECT_EQ(hash(*disturbed).value(), hash(*plain).value());
}

// Exactly one read and one write of every shard for each applied step: what was read early for a
// step that was skipped is used by the next one.
TEST(Step, EachAppliedStepMovesEachShardOnceWhateverWasSkipped) {
  const Running running(kOnDisk);
  Stats before = running->stats();
  // Bytes of a step: all but fp16 and fp32 parameters keep 10 bytes an element.
  const std::uint64_t step_bytes = [&] {
    EXPECT_TRUE(train(*running, 0, 1).ok());
    EXPECT_TRUE(running->wait(running->step(step_options()).value().done).ok());
    const Stats after = running->stats();
    EXPECT_EQ(after.nvme_read_bytes - before.nvme_read_bytes,
              after.nvme_written_bytes - before.nvme_written_bytes);
    return after.nvme_written_bytes - before.nvme_written_bytes;
  }();
  before = running->stats();
  std::vector<float> bad = gradient(kNorm, 0);
  bad[5] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(put_values(*running, kNorm, bad).ok());
    ASSERT_FALSE(running->step(step_options()).value().applied);
  }
  ASSERT_TRUE(train(*running, 1, 2).ok());
  EXPECT_EQ(running->stats().nvme_read_bytes - before.nvme_read_bytes, step_bytes);
  EXPECT_EQ(running->stats().nvme_written_bytes - before.nvme_written_bytes, step_bytes);
}

TEST(Step, NvmeBytesPerPaddedParameterAreExactlyThoseOfTheFormat) {
  for (const StateFormat format : {StateFormat::fp32, StateFormat::split}) {
    const auto platform = Platform::simulate();
    const auto engine =
        Engine::open(*platform, options_of({.place = Place::nvme, .format = format}, "/disk0"))
            .value();
    ASSERT_TRUE(engine->add({.name = "w", .count = 51'200}).ok());
    ASSERT_TRUE(engine->seal().ok());
    for (int number = 0; number < 4; ++number) {
      ASSERT_TRUE(put_values(*engine, TensorId{0}, values(51'200, 1)).ok());
      ASSERT_TRUE(engine->step(step_options()).value().applied);
    }
    const Stats stats = engine->stats();
    EXPECT_EQ(stats.nvme_parameters, stats.padded_parameters);
    EXPECT_EQ(stats.nvme_read_bytes + stats.nvme_written_bytes,
              4 * stats.nvme_parameters * (format == StateFormat::fp32 ? 24 : 20));
  }
}

TEST(Step, WithoutClippingOrCheckStepWaitsForNothing) {
  for (const GroundKind kind : {GroundKind::simulated, GroundKind::posix}) {
    const Running running({kind, Place::nvme, StateFormat::split});
    const std::uint64_t before = hash(*running).value();
    const Gate gate;
    const std::vector<float> source = gradient(kBig, 1);
    const Event in =
        running->put_grad(kBig, view_of(std::span(source)), ScalarType::fp32, gate.event());
    const StepReport report = running->step(neither_clipped_nor_checked()).value();
    EXPECT_TRUE(report.applied);
    EXPECT_FALSE(in.done());
    EXPECT_FALSE(report.done.done());
    EXPECT_EQ(report.grad_norm, 0.0);
    gate.open();
    EXPECT_TRUE(running->wait(report.done).ok());
    EXPECT_NE(hash(*running).value(), before);
  }
}

TEST(Step, WithClippingStepReturnsWhileTheUpdatesRun) {
  const Running running(kOnDisk);
  ASSERT_TRUE(put_all(*running, 1).ok());
  const StepReport report = running->step(step_options()).value();
  EXPECT_TRUE(report.applied);
  EXPECT_FALSE(report.done.done());  // nothing runs on a simulated platform until somebody waits
  EXPECT_GT(report.grad_norm, 0.0);
  EXPECT_TRUE(running->wait(report.done).ok());
}

// A gradient that does not come: the deadline, or a simulated platform's deadlock, ends the wait.
TEST(Step, AGradientThatNeverArrivesIsATimeoutThatPoisons) {
  const Running running(kOnDisk);
  const Gate gate;
  const std::vector<float> source = gradient(kNorm, 1);
  static_cast<void>(
      running->put_grad(kNorm, view_of(std::span(source)), ScalarType::fp32, gate.event()));
  const Status how = running->step(step_options()).status();
  EXPECT_EQ(how.code(), Code::timeout) << how.to_string();
  EXPECT_NE(how.message().find("gradient did not arrive"), std::string_view::npos);
  EXPECT_EQ(running->acquire(UnitId{0}).status().code(), Code::poisoned);
  gate.open();
}

TEST(Step, AGradientThatFailsIsReportedAndForgotten) {
  const Running running(kOnDisk), plain(kOnDisk);
  const std::uint64_t before = hash(*running).value();
  const std::vector<float> source = gradient(kNorm, 1);
  ASSERT_TRUE(put(*running, kBig, 1).ok());
  const Event in =
      running->put_grad(kNorm, view_of(std::span(source)), ScalarType::fp32,
                        Event::failed(Status(Code::device, "the backward pass failed")));
  const Status how = running->step(step_options()).status();
  EXPECT_EQ(how.code(), Code::device) << how.to_string();
  EXPECT_NE(how.message().find("the backward pass failed"), std::string_view::npos);
  EXPECT_EQ(running->wait(in).code(), Code::device);
  EXPECT_EQ(hash(*running).value(), before);
  for (const Running* each : {&running, &plain}) ASSERT_TRUE(train(**each, 0, 2).ok());
  EXPECT_EQ(hash(*running).value(), hash(*plain).value());
}

// The source may be reused when the event fires: not before what writes it is over.
TEST(Step, ARefusedGradientEndsWithWhatItWasToFollow) {
  const Running running(kOnDisk);
  const Gate gate;
  const std::vector<float> source = gradient(kNorm, 1);
  const Event refused =
      running->put_grad(kFrozen, view_of(std::span(source)), ScalarType::fp32, gate.event());
  EXPECT_FALSE(refused.done());
  gate.open();
  EXPECT_EQ(running->wait(refused).code(), Code::invalid);
}

TEST(Step, GradientsAddInFp32InTheOrderOfTheCalls) {
  const Running adding(kOnDisk), summed(kOnDisk);
  std::vector<float> sum = gradient(kBig, 1);
  ASSERT_TRUE(put(*adding, kBig, 1).ok());
  for (const std::uint64_t seed : {2U, 3U, 4U}) {
    ASSERT_TRUE(put(*adding, kBig, seed).ok());
    const std::vector<float> more = gradient(kBig, seed);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  ASSERT_TRUE(put_values(*summed, kBig, sum).ok());
  const StepReport one = adding->step(step_options()).value();
  const StepReport other = summed->step(step_options()).value();
  EXPECT_EQ(one.grad_norm, other.grad_norm);
  EXPECT_EQ(hash(*adding).value(), hash(*summed).value());
}

TEST(Step, GradientsOfAliasesAddToOneState) {
  const Running tied(kOnDisk), twice(kOnDisk);
  for (int number = 0; number < 3; ++number) {
    ASSERT_TRUE(put(*tied, kTied, 1).ok());
    ASSERT_TRUE(put(*tied, kTable, 2).ok());
    ASSERT_TRUE(put_values(*twice, kTable, gradient(kTied, 1)).ok());
    ASSERT_TRUE(put(*twice, kTable, 2).ok());
    for (const Running* running : {&tied, &twice})
      ASSERT_TRUE((*running)->step(step_options()).value().applied);
  }
  EXPECT_EQ(hash(*tied).value(), hash(*twice).value());
  EXPECT_EQ(tied->steps_of(kTied).value(), 3u);
  EXPECT_EQ(tied->stats().parameters, 38'800u);  // the alias is not counted
}

TEST(Step, ClippingIsByTheNormOfAllUnscaledGradients) {
  const Running running(kOnDisk);
  ASSERT_TRUE(put_values(*running, kNorm, std::vector<float>(300, 8.0F)).ok());
  ASSERT_TRUE(put_values(*running, kOnce, std::vector<float>(1'000, -4.0F)).ok());
  StepOptions options = step_options();
  options.grad_scale = 4;
  options.max_norm = 1;
  const StepReport report = running->step(options).value();
  const double norm = std::sqrt(300 * 4.0 + 1'000 * 1.0);
  EXPECT_NEAR(report.grad_norm, norm, 1e-12 * norm);
  EXPECT_NEAR(report.clip_factor, 1 / (norm + 1e-6), 1e-15);
  const float moment = floats_of(*running, kOnce, Kind::exp_avg).value()[17];
  EXPECT_NEAR(moment, 0.2 * -1.0 / norm, 1e-6);  // beta1 is 0.8 in group 1
}

}  // namespace
}  // namespace headrace
