// A drive that fails in the middle of a step: what is spoiled, what is not, and what the engine
// says.
#include <array>
#include <cstring>

#include "runtime/close.h"
#include "runtime/seal.h"
#include "runtime/state_access.h"
#include "runtime/step_call.h"
#include "tests/runtime/faulty_model.h"

namespace headrace {
namespace {

using namespace small;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::array kGrounds = {GroundKind::simulated, GroundKind::posix, GroundKind::uring};

StepOptions neither_clipped_nor_checked() {
  StepOptions options = step_options();
  options.max_norm = 0;
  options.skip_non_finite = false;
  return options;
}

// An engine without its public face, so that its tiers' bytes can be looked at whatever has
// happened.
class OpenParts {
 public:
  OpenParts(Platform& platform, const EngineOptions& options) : parts_(platform, options) {
    parts_.owner = platform.new_owner();
    for (const TensorSpec& spec : specs()) EXPECT_TRUE(parts_.tensors.add(spec).ok());
    EXPECT_TRUE(seal(parts_).ok());
    parts_.phase = Phase::sealed;
    for (const TensorId tensor : with_state()) {
      const auto weights = values(spec(tensor).count, 77 + index_of(tensor));
      EXPECT_TRUE(wait(queue_write(parts_, tensor, Kind::master, {0, weights.size()},
                                   view_of(std::span(weights)), Loan()))
                      .ok());
    }
  }
  ~OpenParts() { EXPECT_TRUE(close(parts_, seconds(100)).ok()); }

  EngineParts& parts() { return parts_; }
  Status wait(const Event& event) { return parts_.platform.wait(event, seconds(100)); }

  // The end of a step over all tensors.
  Status step(std::uint64_t seed) {
    for (const TensorId tensor : with_state()) {
      const auto source = gradient(tensor, seed);
      EXPECT_TRUE(wait(parts_.gradients->put(tensor, view_of(std::span(source)), ScalarType::fp32,
                                             {}, *parts_.cpu, parts_.owner, parts_.team))
                      .ok());
    }
    const Result<StepReport> report = step_call(parts_, step_options());
    return report.ok() ? wait(report->done) : report.status();
  }

  // The shard's bytes: its state as it lies on its tier, and its parameters.
  std::vector<std::byte> bytes(const Shard& shard) {
    const Region home = shard.state.region();
    const Region to = parts_.staging[0].state.region().sub(0, home.size());
    EXPECT_TRUE(wait(parts_.mover->move(home, to)).ok());
    std::vector<std::byte> all(home.size() + shard.spec.param_bytes);
    std::memcpy(all.data(), to.view().data, home.size());
    std::memcpy(all.data() + home.size(), shard.host_param.view().data, shard.spec.param_bytes);
    return all;
  }
  std::vector<std::vector<std::byte>> bytes() {
    std::vector<std::vector<std::byte>> all;
    for (const Shard& shard : parts_.shards) all.push_back(bytes(shard));
    return all;
  }

 private:
  EngineParts parts_;
};

// The shards whose last change failed.
std::vector<std::size_t> spoiled(const EngineParts& parts) {
  std::vector<std::size_t> failed;
  for (const Shard& shard : parts.shards)
    if (!shard.settled.status().ok()) failed.push_back(shard.id);
  return failed;
}

// One error at the transfer number `later` of a step.
void expect_one_spoiled_shard(GroundKind kind, Direction direction, std::uint64_t later) {
  SCOPED_TRACE(testing::Message() << "ground " << int(kind) << " transfer " << later);
  Faulty faulty(kind), right(kind);
  if (faulty.missing()) GTEST_SKIP() << "no io_uring here";
  OpenParts struck(*faulty.platform, faulty.options());
  OpenParts spared(*right.platform, right.options());
  for (OpenParts* each : {&struck, &spared}) ASSERT_TRUE(each->step(0).ok());
  const auto before = spared.bytes();
  faulty.strike(FaultKind::error, direction, later);
  const Status how = struck.step(1);
  EXPECT_EQ(how.code(), Code::io) << how.to_string();
  EXPECT_NE(how.message().find(direction == Direction::read ? "read" : "write"),
            std::string_view::npos);
  ASSERT_TRUE(struck.wait(struck.parts().all_settled().over()).ok());
  ASSERT_TRUE(spared.step(1).ok());
  const auto failed = spoiled(struck.parts());
  ASSERT_EQ(failed.size(), 1u);
  const auto found = struck.bytes(), expected = spared.bytes();
  for (std::size_t s = 0; s < expected.size(); ++s) {
    if (s == failed[0]) continue;
    EXPECT_EQ(found[s], expected[s]) << "shard " << s;
  }
  if (direction == Direction::read) {
    EXPECT_EQ(found[failed[0]], before[failed[0]]);
  }
  EXPECT_EQ(struck.step(2).code(), Code::poisoned);
}

std::uint64_t shards() { return Running({.place = Place::nvme})->stats().shards; }

TEST(Fault, OneReadErrorSpoilsOneShardAndLeavesItAsItWas) {
  for (std::uint64_t later = 0; later < shards(); ++later)
    expect_one_spoiled_shard(GroundKind::simulated, Direction::read, later);
  for (const GroundKind kind : {GroundKind::posix, GroundKind::uring})
    expect_one_spoiled_shard(kind, Direction::read, 5);
}

TEST(Fault, OneWriteErrorSpoilsOneShard) {
  for (std::uint64_t later = 0; later < shards(); ++later)
    expect_one_spoiled_shard(GroundKind::simulated, Direction::write, later);
  for (const GroundKind kind : {GroundKind::posix, GroundKind::uring})
    expect_one_spoiled_shard(kind, Direction::write, 5);
}

// Everything that shows state or changes it fails with the first reason; the rest still works.
void expect_poisoned(Engine& engine, const char* reason) {
  std::vector<float> one(1);
  const std::pair<const char*, std::function<Status()>> calls[] = {
      {"acquire", [&] { return engine.acquire(UnitId{0}).status(); }},
      {"put_grad", [&] { return put(engine, kNorm, 1); }},
      {"step", [&] { return engine.step(step_options()).status(); }},
      {"drop_gradients", [&] { return engine.drop_gradients(); }},
      {"read",
       [&] {
         return engine.read(kNorm, Kind::master, {0, 1}, view_of(std::span(one)));
       }},
      {"write",
       [&] {
         return engine.write(kNorm, Kind::master, {0, 1}, view_of(std::span(one)));
       }},
      {"state_hash", [&] { return engine.state_hash().status(); }},
      {"save", [&] { return engine.save("/disk0/checkpoint"); }},
  };
  for (const auto& [name, call] : calls) {
    const Status how = call();
    EXPECT_EQ(how.code(), Code::poisoned) << name << ": " << how.to_string();
    EXPECT_NE(how.message().find(reason), std::string_view::npos)
        << name << ": " << how.to_string();
  }
  EXPECT_FALSE(engine.stats().placement.empty());
}

TEST(Fault, AFailedStepPoisonsTheEngineAndSaysWhy) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    Faulty faulty(GroundKind::simulated);
    const auto engine = faulty.open();
    ASSERT_TRUE(put_all(*engine, 0).ok());
    faulty.strike(FaultKind::error, direction);
    const StepReport report = engine->step(step_options()).value();
    EXPECT_TRUE(report.applied);
    EXPECT_EQ(engine->wait(report.done).code(), Code::io);
    expect_poisoned(*engine, "errno 5");
    EXPECT_TRUE(engine->close(seconds(1)).ok());
  }
}

// The lease of a unit that the failure did not touch is good; of the one it did, not.
TEST(Fault, OnlyTheLeaseOfTheSpoiledUnitFails) {
  Faulty faulty(GroundKind::simulated);
  const auto engine = faulty.open();
  ASSERT_TRUE(put_all(*engine, 0).ok());
  faulty.strike(FaultKind::error, Direction::read, 3);  // three shards are in the slots already
  const Event done = engine->step(step_options()).value().done;
  std::vector<Event> ready;
  for (const std::uint32_t unit : {0U, 1U, 2U})
    ready.push_back(engine->acquire(UnitId{unit}).value().ready());
  EXPECT_TRUE(faulty.wait(ready[0]).ok());
  EXPECT_EQ(faulty.wait(ready[1]).code(), Code::io);
  EXPECT_TRUE(faulty.wait(ready[2]).ok());
  EXPECT_EQ(faulty.wait(done).code(), Code::io);
}

// A later step that is well does not cover up an earlier one that was not.
TEST(Fault, AFailureIsNotForgottenByTheNextStep) {
  Faulty faulty(GroundKind::simulated);
  const auto engine = faulty.open();
  const auto big = gradient(kBig, 0), norm = gradient(kNorm, 0);
  faulty.strike(FaultKind::error, Direction::write);
  static_cast<void>(engine->put_grad(kBig, view_of(std::span(big)), ScalarType::fp32));
  const Event first = engine->step(neither_clipped_nor_checked()).value().done;
  static_cast<void>(engine->put_grad(kNorm, view_of(std::span(norm)), ScalarType::fp32));
  const Event second = engine->step(neither_clipped_nor_checked()).value().done;
  EXPECT_TRUE(faulty.wait(second).ok());
  EXPECT_EQ(faulty.wait(first).code(), Code::io);
  expect_poisoned(*engine, "errno 5");
}

// A step that follows a failed one on the same shards fails with the reason of the first.
TEST(Fault, TheFirstReasonIsTheOneThatIsTold) {
  Faulty faulty(GroundKind::simulated);
  const auto engine = faulty.open();
  const auto big = gradient(kBig, 0);
  faulty.strike(FaultKind::error, Direction::write, 2);
  Event last;
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(engine->put_grad(kBig, view_of(std::span(big)), ScalarType::fp32));
    last = engine->step(neither_clipped_nor_checked()).value().done;
  }
  EXPECT_EQ(faulty.wait(last).code(), Code::io);
  expect_poisoned(*engine, "errno 5");
}

TEST(Fault, AReadThatFailsChangesNothingAndIsDoneAgainWhenAsked) {
  for (const GroundKind kind : kGrounds) {
    Faulty faulty(kind);
    if (faulty.missing()) continue;
    const auto engine = faulty.open();
    ASSERT_TRUE(train(*engine, 0, 2).ok());
    ASSERT_TRUE(floats_of(*engine, kHalf, Kind::master).ok());  // the slots hold something else
    ASSERT_TRUE(floats_of(*engine, kOnce, Kind::master).ok());
    faulty.strike(FaultKind::error, Direction::read);
    EXPECT_EQ(floats_of(*engine, kNorm, Kind::exp_avg).status().code(), Code::io);
    EXPECT_EQ(faulty.script->struck(), 1u);
    EXPECT_TRUE(floats_of(*engine, kNorm, Kind::exp_avg).ok());
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(2));
  }
}

// What was read early for a step, and could not be, is read again by the step.
TEST(Fault, AReadThatFailedBeforeTheStepIsDoneAgainByTheStep) {
  Faulty faulty(GroundKind::simulated);
  const auto engine = faulty.open();
  ASSERT_TRUE(train(*engine, 0, 1).ok());
  ASSERT_TRUE(floats_of(*engine, kBig, Kind::master).ok());
  faulty.strike(FaultKind::error, Direction::read);
  ASSERT_TRUE(put_all(*engine, 1).ok());
  EXPECT_EQ(faulty.script->struck(), 1u);
  EXPECT_TRUE(engine->wait(engine->step(step_options()).value().done).ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(2));
}

// The parameters have changed and the state on the drive has not: a mixed model.
TEST(Fault, AWriteOfStateThatFailsPoisons) {
  Faulty faulty(GroundKind::simulated);
  const auto engine = faulty.open();
  const auto other = values(100, 5);
  faulty.strike(FaultKind::error, Direction::write);
  const Status how = engine->write(kBig, Kind::master, {0, 100}, view_of(std::span(other)));
  EXPECT_EQ(how.code(), Code::io) << how.to_string();
  expect_poisoned(*engine, "errno 5");
}

void arm_every(Faulty& faulty, FaultKind kind, std::uint64_t every, std::uint64_t amount,
               int errno_value = 0) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    Fault fault;
    fault.kind = kind;
    fault.direction = direction;
    fault.every = every;
    fault.times = ~std::uint64_t{0};
    fault.amount = amount;
    fault.errno_value = errno_value;
    fault.time = milliseconds(1);
    faulty.script->add(fault);
  }
}

TEST(Fault, ShortTransfersInterruptionsAndDelaysChangeNoBits) {
  for (const GroundKind kind : kGrounds) {
    Faulty faulty(kind);
    if (faulty.missing()) continue;
    arm_every(faulty, FaultKind::delay, 7, 0);
    arm_every(faulty, FaultKind::error, 3, 0, EINTR);
    arm_every(faulty, FaultKind::short_transfer, 4, 8'192);
    arm_every(faulty, FaultKind::error, 5, 0, EAGAIN);
    const auto engine = faulty.open();
    ASSERT_TRUE(train(*engine, 0, 3).ok());
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(3));
    EXPECT_GT(faulty.script->struck(), 100u);
  }
}

}  // namespace
}  // namespace headrace
