// Saves and loads by the engine that fail: what is left, and that training goes on.
#include "runtime/checkpoint.h"

#include "io/wrapping_engine.h"
#include "runtime/checkpoint_format.h"
#include "tests/runtime/faulty_model.h"

namespace headrace {
namespace {

using namespace small;
using std::chrono::seconds;

constexpr const char* kFolder = "/disk0/checkpoint";

// What a fresh engine on the same platform makes of the folder.
std::uint64_t hash_of_checkpoint(Faulty& faulty) {
  const auto engine = faulty.open(faulty.options(Place::dram));
  const Status how = engine->load(kFolder).status();
  EXPECT_TRUE(how.ok()) << how.to_string();
  return hash(*engine).value();
}

// Each write and each sync of a save fails in turn. The last checkpoint stays whole, the step that
// was running while it was saved is right, and the next save works.
TEST(CheckpointFault, AFailedSaveLeavesTheLastCheckpointWholeAndTrainingGoesOn) {
  const std::uint64_t first = hash_without_faults(1), last = hash_without_faults(3);
  for (const Direction direction : {Direction::write, Direction::sync})
    for (std::uint64_t number = 0; number < 40; number += direction == Direction::write ? 3 : 1) {
      SCOPED_TRACE(testing::Message() << "direction " << int(direction) << " number " << number);
      Faulty faulty(GroundKind::simulated);
      const auto engine = faulty.open();
      ASSERT_TRUE(train(*engine, 0, 1).ok());
      ASSERT_TRUE(engine->save(kFolder).ok());
      ASSERT_TRUE(train(*engine, 1, 2).ok());
      ASSERT_TRUE(hash(*engine).ok());  // the step is over: what fails now is the save's
      faulty.strike(FaultKind::error, direction, number);
      const Status how = engine->save(kFolder);
      if (faulty.script->struck() == 0) break;  // it has no more of them
      EXPECT_EQ(how.code(), Code::io) << how.to_string();
      EXPECT_EQ(hash_of_checkpoint(faulty), first);
      ASSERT_TRUE(train(*engine, 2, 3).ok());
      EXPECT_EQ(hash(*engine).value(), last);
      EXPECT_TRUE(engine->save(kFolder).ok());
      EXPECT_EQ(hash_of_checkpoint(faulty), last);
    }
}

TEST(CheckpointFault, ASaveWithoutRoomIsRefusedBeforeItWritesAndTrainingGoesOn) {
  SimulationOptions simulation;
  simulation.disk_bytes = 1'100 * kKiB;  // the state, and one checkpoint of 466 KB
  const auto platform = Platform::simulate(simulation);
  const auto engine = Engine::open(*platform, options_of({.place = Place::nvme}, "/disk0")).value();
  ASSERT_TRUE(build(*engine).ok());
  ASSERT_TRUE(train(*engine, 0, 1).ok());
  ASSERT_TRUE(engine->save(kFolder).ok());
  ASSERT_TRUE(train(*engine, 1, 2).ok());
  IoEngine& folders = platform->queue_for("/disk0").value()->folders();
  const std::uint64_t free = folders.free_bytes("/disk0").value();
  const Status how = engine->save(kFolder);
  EXPECT_EQ(how.code(), Code::out_of_space) << how.to_string();
  EXPECT_NE(how.message().find(format_bytes(free)), std::string_view::npos) << how.to_string();
  EXPECT_EQ(folders.free_bytes("/disk0").value(), free);
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(2));
  ASSERT_TRUE(train(*engine, 2, 3).ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(3));
  ASSERT_TRUE(engine->load(kFolder).ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(1));
}

// State that cannot be read does not become a checkpoint.
TEST(CheckpointFault, ASaveOfStateThatCannotBeReadFailsAndMayBeTriedAgain) {
  Faulty faulty(GroundKind::simulated);
  const auto engine = faulty.open();
  ASSERT_TRUE(train(*engine, 0, 2).ok());
  ASSERT_TRUE(hash(*engine).ok());
  faulty.strike(FaultKind::error, Direction::read);
  EXPECT_EQ(engine->save(kFolder).code(), Code::io);
  EXPECT_EQ(engine->load(kFolder).status().code(), Code::invalid);  // there is none
  ASSERT_TRUE(engine->save(kFolder).ok());
  EXPECT_EQ(hash_of_checkpoint(faulty), hash_without_faults(2));
}

// Of a tensor of several blocks of the file a part is missing, and what comes after it is there.
TEST(CheckpointFault, ASaveGoesOnPastAPartThatCannotBeReadToItsError) {
  constexpr std::uint64_t kCount = 4 * kBlockElements;
  const auto weights = values(kCount, 1);
  std::uint64_t number = 0;
  for (bool struck = true; struck; ++number) {
    SCOPED_TRACE(testing::Message() << "read " << number);
    Faulty faulty(GroundKind::simulated);
    EngineOptions options = faulty.options();
    options.dram_bytes = 0;
    options.shard_bytes = 8 * kMiB;
    options.slots = 2;
    const auto engine = Engine::open(*faulty.platform, options).value();
    const TensorId tensor = engine->add({.name = "large", .count = kCount}).value();
    ASSERT_TRUE(engine->seal().ok());
    const ConstMemView source = view_of(std::span(weights));
    ASSERT_TRUE(engine->write(tensor, Kind::master, {0, kCount}, source).ok());
    faulty.strike(FaultKind::error, Direction::read, number);
    const Status how = engine->save(kFolder);
    struck = faulty.script->struck() > 0;
    EXPECT_EQ(how.code(), struck ? Code::io : Code::ok) << how.to_string();
    EXPECT_TRUE(!struck || engine->save(kFolder).ok());
    EXPECT_TRUE(!struck || engine->load(kFolder).ok());
  }
  EXPECT_GT(number, 5u);
}

TEST(CheckpointFault, LoadRepairsAPoisonedEngine) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    Faulty faulty(GroundKind::simulated);
    const auto engine = faulty.open();
    ASSERT_TRUE(train(*engine, 0, 2).ok());
    ASSERT_TRUE(engine->save(kFolder).ok());
    ASSERT_TRUE(put_all(*engine, 2).ok());
    faulty.strike(FaultKind::error, direction, 2);
    EXPECT_FALSE(engine->wait(engine->step(step_options()).value().done).ok());
    EXPECT_EQ(engine->save(kFolder).code(), Code::poisoned);
    ASSERT_TRUE(engine->load(kFolder).ok());
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(2));
    ASSERT_TRUE(train(*engine, 2, 4).ok());
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(4));
  }
}

// The first half of a load only looks; once it changes state, a failure poisons, and another load
// repairs.
TEST(CheckpointFault, ALoadThatFailsChangesNothingOrPoisons) {
  std::uint64_t reads = 0;
  bool unchanged = false, poisoned = false;
  for (std::uint64_t number = 0; number == 0 || number < reads; number += 5) {
    SCOPED_TRACE(testing::Message() << "read " << number);
    Faulty faulty(GroundKind::simulated);
    const auto engine = faulty.open();
    ASSERT_TRUE(train(*engine, 0, 1).ok());
    ASSERT_TRUE(engine->save(kFolder).ok());
    const std::uint64_t before_load = faulty.script->seen(Direction::read);
    ASSERT_TRUE(engine->load(kFolder).ok());
    reads = faulty.script->seen(Direction::read) - before_load;
    ASSERT_TRUE(train(*engine, 30, 32).ok());
    const std::uint64_t before = hash(*engine).value();
    faulty.strike(FaultKind::error, Direction::read, number);
    const Status how = engine->load(kFolder).status();
    EXPECT_EQ(faulty.script->struck(), 1u);
    EXPECT_FALSE(how.ok());
    const Result<std::uint64_t> after = hash(*engine);
    unchanged |= after.ok();
    poisoned |= !after.ok();
    if (after.ok()) {
      EXPECT_EQ(how.code(), Code::io) << how.to_string();
      EXPECT_EQ(*after, before);
    } else {
      EXPECT_EQ(how.code(), Code::poisoned) << how.to_string();
      EXPECT_EQ(after.status().code(), Code::poisoned);
    }
    ASSERT_TRUE(engine->load(kFolder).ok());
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(1));
  }
  EXPECT_TRUE(unchanged);
  EXPECT_TRUE(poisoned);
}

// Each byte of a checkpoint is read twice: to be verified, and to be applied. Whichever reading
// gives a flipped bit, no state is taken from it.
TEST(CheckpointFault, ABitThatFlipsInEitherReadingOfALoadIsNotTaken) {
  for (std::uint64_t number = 0;; number += 3) {
    SCOPED_TRACE(testing::Message() << "read " << number);
    Faulty faulty(GroundKind::simulated);
    const auto engine = faulty.open(faulty.options(Place::dram));
    ASSERT_TRUE(train(*engine, 0, 1).ok());
    ASSERT_TRUE(engine->save(kFolder).ok());
    faulty.strike(FaultKind::bit_flip, Direction::read, number);
    const Status how = engine->load(kFolder).status();
    if (faulty.script->struck() == 0) break;  // it has no more of them
    EXPECT_TRUE(how.ok() || how.code() == Code::corrupt) << how.to_string();
    ASSERT_TRUE(how.ok() || engine->load(kFolder).ok());
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(1));
  }
}

// An engine of files that calls back when a file is made.
class CallingEngine : public WrappingEngine {
 public:
  CallingEngine(std::unique_ptr<IoEngine> inner, Clock& clock, std::function<void()>& call)
      : WrappingEngine(std::move(inner), &clock), call_(call) {}
  std::string describe() const override { return "calling " + inner().describe(); }
  bool submit(const Transfer& transfer) override { return inner().submit(transfer); }
  Result<OpenFile> open_file(const FileSpec& spec) override {
    if (spec.mode == FileMode::create) std::exchange(call_, [] {})();
    return inner().open_file(spec);
  }

 private:
  void completed(const Completion& completion) override { hold(completion, now()); }
  std::function<void()>& call_;
};

// Another thread's step may come while a save opens its file: step counts and bytes stay of one
// moment.
TEST(CheckpointFault, AStepWhileASaveBeginsIsSavedWholeOrNotAtAll) {
  std::function<void()> call = [] {};
  const Running running({.place = Place::nvme},
                        [&call](std::unique_ptr<IoEngine> inner, Clock& clock) {
                          return std::make_unique<CallingEngine>(std::move(inner), clock, call);
                        });
  ASSERT_TRUE(train(*running, 0, 2).ok());
  call = [&running] { EXPECT_TRUE(train(*running, 2, 3).ok()); };
  ASSERT_TRUE(running->save(kFolder).ok());
  ASSERT_TRUE(running->load(kFolder).ok());
  const std::uint64_t steps = running->steps_of(kBig).value();
  EXPECT_EQ(hash(*running).value(), hash_without_faults(static_cast<int>(steps)));
  EXPECT_EQ(steps, 3u);
}

TEST(CheckpointFault, ASaveThatNeverEndsIsATimeoutAndTheLastCheckpointStays) {
  Faulty faulty(GroundKind::simulated);
  EngineOptions options = faulty.options();
  options.deadline = seconds(2);
  const auto engine = faulty.open(options);
  ASSERT_TRUE(engine->save(kFolder).ok());
  ASSERT_TRUE(train(*engine, 0, 1).ok());
  ASSERT_TRUE(hash(*engine).ok());
  faulty.strike(FaultKind::never_completes, Direction::write, 5);
  const Nanoseconds begin = faulty.platform->clock().now();
  EXPECT_EQ(engine->save(kFolder).code(), Code::timeout);
  EXPECT_LE(faulty.platform->clock().now() - begin, seconds(70));  // of the folder's own waits
  EXPECT_EQ(engine->acquire(UnitId{0}).status().code(), Code::poisoned);
  EXPECT_EQ(engine->close(seconds(1)).code(), Code::timeout);
}

}  // namespace
}  // namespace headrace
