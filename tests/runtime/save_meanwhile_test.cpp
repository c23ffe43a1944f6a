// Training goes on while another thread saves: a step waits for what is not read yet, and for
// nothing else; and the checkpoint is of one moment. On real platforms: a simulated one is of one
// thread.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "io/wrapping_engine.h"
#include "tests/runtime/small_model.h"

namespace headrace {
namespace {

using namespace small;

// Holds up a drive from its n-th write on, and says when it has come.
class Barrier {
 public:
  explicit Barrier(int writes) : left_(writes) {}
  void pass() {
    std::unique_lock lock(mutex_);
    if (--left_ > 0) return;
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_;  // all guarded by mutex_
  bool reached_ = false, open_ = false;
};

class BarredEngine : public WrappingEngine {
 public:
  BarredEngine(std::unique_ptr<IoEngine> inner, Clock& clock, Barrier& barrier)
      : WrappingEngine(std::move(inner), &clock), barrier_(barrier) {}
  std::string describe() const override { return "barred " + inner().describe(); }
  bool submit(const Transfer& transfer) override {
    if (transfer.direction == Direction::write) barrier_.pass();
    return inner().submit(transfer);
  }

 private:
  void completed(const Completion& completion) override { hold(completion, now()); }
  Barrier& barrier_;
};

// One tensor of a megabyte of state in each of many units, all in DRAM.
constexpr std::uint32_t kUnitsHere = 24;
constexpr std::uint64_t kCount = 96 * 1024;

Status build_units(Engine& engine) {
  HEADRACE_TRY(build_equal(engine, kUnitsHere, kCount));
  for (std::uint32_t unit = 0; unit < kUnitsHere; ++unit) {
    const auto weights = values(kCount, unit);
    HEADRACE_TRY(
        engine.write(TensorId{unit}, Kind::master, {0, kCount}, view_of(std::span(weights))));
  }
  return {};
}

Status put_units(Engine& engine, std::uint64_t seed) {
  for (std::uint32_t unit = 0; unit < kUnitsHere; ++unit) {
    const auto gradient = values(kCount, seed * 1'000 + unit);
    HEADRACE_TRY(engine.wait(
        engine.put_grad(TensorId{unit}, view_of(std::span(gradient)), ScalarType::fp32)));
  }
  return {};
}

bool is_ready(Engine& engine, std::uint32_t unit) {
  return engine.acquire(UnitId{unit}).value().ready().done();
}

// The drive stands still in the middle of a save: gradients, the step and the parameters of what
// was saved are there all the same; what was not saved is not updated.
TEST(SaveMeanwhile, AStepWaitsOnlyForWhatIsNotReadYet) {
  const TemporaryFolder folder;
  Barrier barrier(30);  // 3 writes for each unit: the tenth, and the blocks that are filled ahead
  PlatformOptions options{.io = IoBackend::posix};
  options.wrap_engine = [&barrier](std::unique_ptr<IoEngine> inner, Clock& clock) {
    return std::make_unique<BarredEngine>(std::move(inner), clock, barrier);
  };
  const auto platform = Platform::open(std::move(options)).value();
  const auto engine =
      Engine::open(*platform, {.state = StateHome::dram, .shard_bytes = kMiB, .threads = 1})
          .value();
  ASSERT_TRUE(build_units(*engine).ok());
  ASSERT_TRUE(put_units(*engine, 1).ok());
  ASSERT_TRUE(engine->wait(engine->step(step_options()).value().done).ok());
  const std::uint64_t before = engine->state_hash().value();

  Status saved(Code::cancelled, "not yet");
  std::thread saver([&] { saved = engine->save(folder.path() / "checkpoint"); });
  barrier.wait();
  EXPECT_TRUE(is_ready(*engine, kUnitsHere - 1));
  EXPECT_TRUE(put_units(*engine, 2).ok());
  const Result<StepReport> step = engine->step(step_options());
  EXPECT_TRUE(step.ok()) << step.status().to_string();
  EXPECT_TRUE(engine->wait(engine->acquire(UnitId{0}).value().ready()).ok());
  EXPECT_TRUE(engine->wait(engine->acquire(UnitId{8}).value().ready()).ok());
  EXPECT_FALSE(is_ready(*engine, kUnitsHere - 1));
  EXPECT_FALSE(step.ok() && step->done.done());
  barrier.open();
  saver.join();
  ASSERT_TRUE(saved.ok()) << saved.to_string();

  const std::uint64_t after = engine->state_hash().value();
  EXPECT_NE(after, before);
  ASSERT_TRUE(engine->load(folder.path() / "checkpoint").ok());
  EXPECT_EQ(engine->state_hash().value(), before);
  ASSERT_TRUE(put_units(*engine, 2).ok());
  ASSERT_TRUE(engine->step(step_options()).ok());
  EXPECT_EQ(engine->state_hash().value(), after);
}

// Saves one after the other on one thread, steps on another: each checkpoint is what some step
// left, whole.
void expect_whole_checkpoints(const Setting& setting,
                              const std::function<void(EngineOptions&)>& change) {
  SCOPED_TRACE(small::name_of(setting));
  constexpr int kSteps = 8;
  std::vector<std::uint64_t> expected;
  {
    const Running calm(setting, change);
    for (int i = 0; i < kSteps; ++i) {
      expected.push_back(hash(*calm).value());
      ASSERT_TRUE(train(*calm, i, i + 1).ok());
    }
    expected.push_back(hash(*calm).value());
  }
  const Running running(setting, change),
      other({.ground = GroundKind::posix, .place = Place::dram});
  const TemporaryFolder folder;
  Status saving, loading;
  std::vector<std::pair<std::size_t, std::uint64_t>> found;
  std::thread saver([&] {
    for (int i = 0; i < 4 && saving.ok() && loading.ok(); ++i) {
      saving = running->save(folder.path() / "checkpoint");
      loading = other->load(folder.path() / "checkpoint").status();
      found.emplace_back(other->steps_of(kBig).value(), hash(*other).value());
    }
  });
  const Status trained = train(*running, 0, kSteps);
  saver.join();
  ASSERT_TRUE(trained.ok()) << trained.to_string();
  ASSERT_TRUE(saving.ok()) << saving.to_string();
  ASSERT_TRUE(loading.ok()) << loading.to_string();
  for (const auto& [steps, bits] : found) EXPECT_EQ(bits, expected.at(steps)) << steps;
  EXPECT_EQ(hash(*running).value(), expected.back());
}

TEST(SaveMeanwhile, EachCheckpointIsOfOneMoment) {
  const auto as_it_is = [](EngineOptions&) {};
  expect_whole_checkpoints({GroundKind::posix, Place::dram, StateFormat::split}, as_it_is);
  expect_whole_checkpoints({GroundKind::posix, Place::nvme, StateFormat::split}, as_it_is);
  expect_whole_checkpoints({GroundKind::posix, Place::mixed, StateFormat::fp32}, as_it_is);
  expect_whole_checkpoints({GroundKind::posix, Place::nvme, StateFormat::split},
                           [](auto& o) { o.durability = Durability::reusable; });
}

}  // namespace
}  // namespace headrace
