// Leases: what they show, what they wait for, what is foreseen, and what waits for them. On the
// host device and on a simulated one, for each home of the parameters.
#include "runtime/param_cache.h"

#include "tests/runtime/small_model.h"
#include "tests/support/gate.h"

namespace headrace {
namespace {

using namespace small;
using std::chrono::seconds;

struct LeaseCase {
  GroundKind ground;
  ParamHome params;
  Place place;
};

std::vector<LeaseCase> lease_cases() {
  std::vector<LeaseCase> all;
  for (const GroundKind ground : {GroundKind::simulated, GroundKind::posix})
    for (const ParamHome params : {ParamHome::dram, ParamHome::hbm, ParamHome::streamed})
      for (const Place place : {Place::dram, Place::nvme}) all.push_back({ground, params, place});
  return all;
}

std::string name_of(const LeaseCase& c) {
  constexpr const char* kHomes[] = {"dram", "hbm", "streamed"};
  return std::string(c.ground == GroundKind::simulated ? "simulated" : "host") + "_" +
         kHomes[static_cast<int>(c.params)] + "_state_in_" +
         (c.place == Place::dram ? "dram" : "nvme");
}

std::function<void(EngineOptions&)> with(ParamHome params, unsigned max_live_leases = 4) {
  return [=](EngineOptions& options) {
    options.params = params;
    options.max_live_leases = max_live_leases;
  };
}

// Reads what leases show, with a stream of its own.
class Reader {
 public:
  explicit Reader(Running& running) : platform_(running.ground.platform()) {
    stream_ = platform_.device().open_stream("test");
  }
  // Queues a copy of the tensor out of the lease.
  Event copy(const Lease& lease, TensorId tensor, Memory& to) {
    const ConstMemView from = lease.param(tensor);
    to = platform_.device().allocate(Home::host, from.size).value();
    return stream_->copy(to.view(), from, lease.ready());
  }
  std::vector<std::byte> bytes(const Lease& lease, TensorId tensor) {
    Memory to;
    const Event copied = copy(lease, tensor, to);
    const Status how = platform_.wait(copied, seconds(60));
    EXPECT_TRUE(how.ok()) << how.to_string();
    const Bytes read = to.view().bytes();
    return {read.begin(), read.end()};
  }

 private:
  Platform& platform_;
  std::unique_ptr<Stream> stream_;
};

// What the leases of all units show is what read() gives.
void expect_leases_show_parameters(Running& running) {
  Reader reader(running);
  for (std::uint32_t unit = 0; unit < kUnits; ++unit) {
    const Lease lease = running->acquire(UnitId{unit}).value();
    EXPECT_EQ(lease.unit(), UnitId{unit});
    for (std::uint32_t t = 0; t < kTensors; ++t) {
      const TensorId tensor{t};
      if (spec(tensor).unit == UnitId{unit})
        EXPECT_EQ(reader.bytes(lease, tensor), bytes_of(*running, tensor, Kind::param).value())
            << spec(tensor).name;
      else
        EXPECT_EQ(lease.param(tensor).size, 0u) << spec(tensor).name << " in unit " << unit;
    }
    EXPECT_EQ(lease.param(TensorId{99}).size, 0u);
  }
}

class Leases : public testing::TestWithParam<LeaseCase> {
 protected:
  Leases() : running_({GetParam().ground, GetParam().place}, with(GetParam().params)) {}
  Running running_;
};

INSTANTIATE_TEST_SUITE_P(Everywhere, Leases, testing::ValuesIn(lease_cases()),
                         [](const auto& at) { return name_of(at.param); });

TEST_P(Leases, ShowTheParametersAfterEveryChange) {
  expect_leases_show_parameters(running_);
  for (int number = 0; number < 3; ++number) {
    ASSERT_TRUE(train(*running_, number, number + 1).ok());
    expect_leases_show_parameters(running_);
  }
  const auto other = values(600, 5);
  for (const TensorId tensor : {kTable, kFrozen, kOnce}) {
    ASSERT_TRUE(running_->write(tensor, Kind::master, {20, 600}, view_of(std::span(other))).ok());
    expect_leases_show_parameters(running_);
  }
}

TEST_P(Leases, LieWhereTheirHomeSays) {
  const Lease lease = running_->acquire(UnitId{1}).value();
  const bool dram = GetParam().params == ParamHome::dram;
  EXPECT_EQ(lease.param(kBig).home, dram ? Home::host : Home::device);
  EXPECT_EQ(lease.param(kBig).size, 60'000u);
}

TEST_P(Leases, MoveAndReleaseOnce) {
  Lease first = running_->acquire(UnitId{1}).value();
  Lease second = std::move(first);
  first.release();  // NOLINT(bugprone-use-after-move): moved-from is empty
  EXPECT_EQ(running_->step(step_options()).status().code(), Code::invalid);
  second = running_->acquire(UnitId{2}).value();  // the old one is let go
  EXPECT_NE(running_->step(step_options()).status().message().find("unit 2"),
            std::string_view::npos);
  second.release();
  second.release();
  EXPECT_EQ(second.param(kHalf).size, 0u);
  EXPECT_TRUE(running_->step(step_options()).ok());
}

TEST_P(Leases, OneTooManyIsUnavailableAtOnceAndOneReleasedIsRoomAgain) {
  std::vector<Lease> held;
  for (const std::uint32_t unit : {0U, 2U, 2U, 3U})
    held.push_back(running_->acquire(UnitId{unit}).value());
  const Status how = running_->acquire(UnitId{1}).status();
  EXPECT_EQ(how.code(), Code::unavailable);
  EXPECT_NE(how.message().find("unit 0, unit 2 (2 leases), unit 3"), std::string_view::npos)
      << how.to_string();
  held.erase(held.begin() + 1);
  EXPECT_TRUE(running_->acquire(UnitId{1}).ok());
  Reader reader(running_);
  EXPECT_EQ(reader.bytes(held[1], kHalf), bytes_of(*running_, kHalf, Kind::param).value());
}

// Copies out of leases that are released at once, with steps right behind them: each copy must be
// of the parameters before the step, and the whole of them.
TEST_P(Leases, WhatIsReadUntilLastUseIsNeverHalfOfTheNextStep) {
  const Running plain({.place = Place::dram});
  Reader reader(running_);
  std::vector<std::pair<std::vector<std::byte>, Memory>> seen;
  std::vector<Event> copies;
  for (int number = 0; number < 4; ++number) {
    for (const TensorId tensor : {kTable, kBig, kHalf, kTied}) {
      Lease lease = running_->acquire(spec(tensor).unit).value();
      seen.emplace_back(bytes_of(*plain, tensor, Kind::param).value(), Memory());
      copies.push_back(reader.copy(lease, tensor, seen.back().second));
      lease.release(copies.back());
    }
    ASSERT_TRUE(train(*running_, number, number + 1).ok());
    ASSERT_TRUE(train(*plain, number, number + 1).ok());
  }
  ASSERT_TRUE(running_->wait(Event::all(copies)).ok());
  for (const auto& [expected, memory] : seen) {
    const Bytes read = memory.view().bytes();
    EXPECT_TRUE(std::ranges::equal(read, expected));
  }
}

// From here on in virtual time: updates take long, so that it can be told what waits for what.
struct Slow {
  explicit Slow(ParamHome params, Place place, unsigned max_live_leases = 4) {
    SimulationOptions simulation;
    simulation.update_bytes_per_second = 100'000'000;
    simulation.copy_bytes_per_second = 1'000'000'000;
    platform = Platform::simulate(simulation);
    EngineOptions options = options_of({.place = place}, "/disk0");
    with(params, max_live_leases)(options);
    engine = Engine::open(*platform, options).value();
    EXPECT_TRUE(build(*engine).ok());
  }
  Status wait(const Event& event) { return platform->wait(event, seconds(100)); }
  std::uint64_t copies_up() const {
    for (const Usage& usage : engine->stats().resources)
      if (usage.name == "step up") return usage.operations;
    return 0;
  }
  // Everything queued so far on the stream that fills leases.
  void settle() {
    const Event later = platform->copy_lane().run({.at_least = seconds(1)});
    EXPECT_TRUE(wait(later).ok());
  }

  std::unique_ptr<Platform> platform;
  std::unique_ptr<Engine> engine;
};

constexpr std::array kHomes = {ParamHome::dram, ParamHome::hbm, ParamHome::streamed};

TEST(LeaseOrder, ReadyWaitsForTheUnitsOwnParametersOnly) {
  for (const ParamHome params : kHomes)
    for (const Place place : {Place::dram, Place::nvme}) {
      Slow slow(params, place);
      ASSERT_TRUE(train(*slow.engine, 0, 1).ok());
      std::vector<Event> ready;
      for (const std::uint32_t unit : {0U, 1U, 2U})
        ready.push_back(slow.engine->acquire(UnitId{unit}).value().ready());
      for (std::size_t unit = 0; unit < ready.size(); ++unit) {
        EXPECT_FALSE(ready[unit].done());
        ASSERT_TRUE(slow.wait(ready[unit]).ok());
        for (std::size_t later = unit + 1; later < ready.size(); ++later)
          EXPECT_FALSE(ready[later].done()) << "unit " << later << " before unit " << unit;
      }
    }
}

// Unit 3 is an alias of unit 0's table: it is ready when unit 0 is.
TEST(LeaseOrder, AnAliasIsReadyWithItsRoot) {
  for (const ParamHome params : kHomes) {
    Slow slow(params, Place::nvme);
    ASSERT_TRUE(train(*slow.engine, 0, 1).ok());
    const Event alias = slow.engine->acquire(UnitId{3}).value().ready();
    const Event last = slow.engine->acquire(UnitId{2}).value().ready();
    EXPECT_FALSE(alias.done());
    ASSERT_TRUE(slow.wait(alias).ok());
    EXPECT_FALSE(last.done());
  }
}

void acquire_in_turn(Slow& slow, std::uint32_t unit) {
  const Lease lease = slow.engine->acquire(UnitId{unit}).value();
  ASSERT_TRUE(slow.wait(lease.ready()).ok());
}

TEST(LeaseOrder, TheUnitThatFollowedLastTimeIsForeseen) {
  Slow slow(ParamHome::streamed, Place::dram, 1);
  const std::array order = {0U, 1U, 2U};
  for (const std::uint32_t unit : order) acquire_in_turn(slow, unit);
  ASSERT_TRUE(slow.engine->wait(slow.engine->step(step_options()).value().done).ok());
  const std::uint64_t before = slow.copies_up();
  ASSERT_TRUE(train(*slow.engine, 0, 1).ok());  // what was copied is old
  {
    const Lease lease = slow.engine->acquire(UnitId{0}).value();
    ASSERT_TRUE(slow.wait(lease.ready()).ok());
    slow.settle();
    EXPECT_EQ(slow.copies_up(), before + 2);  // unit 0, and 1
  }
  const Lease foreseen = slow.engine->acquire(UnitId{1}).value();
  EXPECT_TRUE(foreseen.ready().done());
}

TEST(LeaseOrder, WhatWasNeverAcquiredBeforeIsNotForeseen) {
  Slow slow(ParamHome::streamed, Place::dram, 1);
  acquire_in_turn(slow, 0);
  slow.settle();
  EXPECT_EQ(slow.copies_up(), 1u);
  const Lease lease = slow.engine->acquire(UnitId{1}).value();
  EXPECT_FALSE(lease.ready().done());
}

TEST(LeaseOrder, AWrongForesightCostsACopyAndNothingElse) {
  Running running({GroundKind::simulated, Place::nvme}, with(ParamHome::streamed, 1));
  Reader reader(running);
  for (const std::uint32_t t : {0U, 3U, 7U, 4U, 0U, 4U, 3U, 7U, 3U, 0U, 7U, 4U}) {
    const TensorId tensor{t};
    const Lease lease = running->acquire(spec(tensor).unit).value();
    EXPECT_EQ(reader.bytes(lease, tensor), bytes_of(*running, tensor, Kind::param).value());
  }
}

// In DRAM and in HBM a lease shows the very memory that the update changes.
TEST(LeaseOrder, AnUpdateWaitsForTheLastUseOfItsShards) {
  for (const ParamHome params : {ParamHome::dram, ParamHome::hbm}) {
    Slow slow(params, Place::dram);
    const auto before = bytes_of(*slow.engine, kBig, Kind::param).value();
    const Gate gate;
    Lease lease = slow.engine->acquire(UnitId{1}).value();
    lease.release(gate.event());
    ASSERT_TRUE(put_all(*slow.engine, 0).ok());
    const StepReport report = slow.engine->step(step_options()).value();
    ASSERT_TRUE(slow.wait(slow.engine->acquire(UnitId{0}).value().ready()).ok());
    slow.settle();
    EXPECT_FALSE(report.done.done());
    EXPECT_FALSE(slow.engine->acquire(UnitId{1}).value().ready().done());
    gate.open();
    ASSERT_TRUE(slow.wait(report.done).ok());
    EXPECT_NE(bytes_of(*slow.engine, kBig, Kind::param).value(), before);
  }
}

TEST(LeaseOrder, AnUpdateWaitsForTheLastUseOfAnAlias) {
  Slow slow(ParamHome::dram, Place::dram);
  const Gate gate;
  Lease lease = slow.engine->acquire(UnitId{3}).value();
  lease.release(gate.event());
  ASSERT_TRUE(put(*slow.engine, kTable, 0).ok());
  const StepReport report = slow.engine->step(step_options()).value();
  slow.settle();
  EXPECT_FALSE(report.done.done());
  gate.open();
  EXPECT_TRUE(slow.wait(report.done).ok());
}

// A streamed lease is a copy: the update does not wait for it, but who fills its slot next does.
TEST(LeaseOrder, ASlotIsFilledAgainOnlyAfterItsLastUse) {
  Slow slow(ParamHome::streamed, Place::dram, 1);
  const Gate gate;
  Lease lease = slow.engine->acquire(UnitId{1}).value();
  ASSERT_TRUE(slow.wait(lease.ready()).ok());
  lease.release(gate.event());
  ASSERT_TRUE(train(*slow.engine, 0, 1).ok());
  std::vector<Event> ready;
  for (const std::uint32_t unit : {0U, 2U})  // the second one of two slots is the one in use
    ready.push_back(slow.engine->acquire(UnitId{unit}).value().ready());
  slow.settle();
  EXPECT_NE(ready[0].done(), ready[1].done());
  gate.open();
  EXPECT_TRUE(slow.wait(Event::all(ready)).ok());
}

// Frozen tensors have no shard that could wait for their readers.
TEST(LeaseOrder, AFrozenTensorIsWrittenAfterTheLastUseOfItsUnit) {
  for (const ParamHome params : {ParamHome::dram, ParamHome::hbm}) {
    Slow slow(params, Place::dram);
    Lease lease = slow.engine->acquire(UnitId{1}).value();
    const auto stream = slow.platform->device().open_stream("test");
    lease.release(stream->occupy(seconds(3), "use"));
    const auto other = values(700, 3);
    ASSERT_TRUE(
        slow.engine->write(kFrozen, Kind::master, {0, 700}, view_of(std::span(other))).ok());
    EXPECT_GE(slow.platform->clock().now(), seconds(3));
  }
}

// What leases have shown is read until their last use is over, and goes then.
TEST(LeaseOrder, CloseWaitsForTheLastUse) {
  for (const ParamHome params : {ParamHome::dram, ParamHome::hbm, ParamHome::streamed}) {
    Slow slow(params, Place::dram);
    Lease lease = slow.engine->acquire(UnitId{1}).value();
    ASSERT_TRUE(slow.wait(lease.ready()).ok());
    const auto stream = slow.platform->device().open_stream("test");
    const Event last_use = stream->occupy(seconds(3), "use");
    lease.release(last_use);
    EXPECT_TRUE(slow.engine->close(seconds(60)).ok());
    EXPECT_TRUE(last_use.done());
  }
}

}  // namespace
}  // namespace headrace
