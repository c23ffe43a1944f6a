// A reusable slab: what the last whole step left is taken up by the next engine of the same model,
// whatever ended the process; anything else is refused, with the reason.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "io/simulated_disk.h"
#include "runtime/slab_format.h"
#include "tests/runtime/faulty_model.h"

namespace headrace {
namespace {

using namespace small;

bool says(const Status& status, std::string_view part) {
  return status.message().find(part) != std::string::npos;
}

std::unique_ptr<Platform> real() { return Platform::open({.io = IoBackend::posix}).value(); }

EngineOptions reusable(const std::vector<std::filesystem::path>& folders, StateFormat format,
                       ParamHome params = ParamHome::dram) {
  EngineOptions options = options_of({.place = Place::nvme, .format = format}, folders[0]);
  options.nvme_paths = folders;
  options.durability = Durability::reusable;
  options.params = params;
  return options;
}

Result<std::unique_ptr<Engine>> seal_it(Platform& platform, const EngineOptions& options) {
  HEADRACE_ASSIGN(std::unique_ptr<Engine> engine, Engine::open(platform, options));
  HEADRACE_TRY(add_all(*engine));
  HEADRACE_TRY(engine->seal());
  return engine;
}

class Reusable : public ::testing::TestWithParam<StateFormat> {
 protected:
  EngineOptions options() const { return reusable(folders_, GetParam()); }
  std::filesystem::path slab() const { return folders_[0] / kSlabName; }

  const TemporaryFolder temporary_;
  const std::vector<std::filesystem::path> folders_ = {temporary_.path()};
};

INSTANTIATE_TEST_SUITE_P(, Reusable, ::testing::Values(StateFormat::fp32, StateFormat::split),
                         [](const auto& format) {
                           return format.param == StateFormat::fp32 ? "fp32" : "split";
                         });

TEST_P(Reusable, ANewEngineGoesOnWhereTheLastOneWas) {
  const auto platform = real();
  std::uint64_t at_close = 0;
  {
    const auto engine = seal_it(*platform, options()).value();
    EXPECT_FALSE(engine->stats().reopened);
    ASSERT_TRUE(write_weights(*engine).ok());
    ASSERT_TRUE(train(*engine, 0, 3).ok());
    at_close = hash(*engine).value();
  }
  for (int step = 3; step < 6; ++step) {
    const auto engine = seal_it(*platform, options()).value();
    EXPECT_TRUE(engine->stats().reopened);
    EXPECT_EQ(engine->stats().steps, static_cast<std::uint64_t>(step));
    EXPECT_EQ(hash(*engine).value(), step == 3 ? at_close : hash_without_faults(step));
    ASSERT_TRUE(train(*engine, step, step + 1).ok());
    ASSERT_EQ(hash(*engine).value(), hash_without_faults(step + 1)) << step;
  }
}

TEST_P(Reusable, OverTwoFoldersAndWithParametersOnTheDevice) {
  const TemporaryFolder second;
  const std::vector<std::filesystem::path> both = {temporary_.path(), second.path()};
  for (const ParamHome params : {ParamHome::hbm, ParamHome::streamed}) {
    const auto platform = real();
    for (const auto& folder : both) std::filesystem::remove(folder / kSlabName);
    const EngineOptions with = reusable(both, GetParam(), params);
    {
      const auto engine = seal_it(*platform, with).value();
      ASSERT_TRUE(write_weights(*engine).ok());
      ASSERT_TRUE(train(*engine, 0, 2).ok());
    }
    const auto engine = seal_it(*platform, with).value();
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(2));
    const Lease lease = engine->acquire(spec(kFrozen).unit).value();
    EXPECT_TRUE(engine->wait(lease.ready()).ok());
  }
}

TEST_P(Reusable, BytesOfAStepAreThoseOfTheFormatAndTheParametersOnlyDramHas) {
  const auto platform = real();
  EngineOptions with = options();
  with.slots = 2;
  const auto engine = Engine::open(*platform, with).value();
  constexpr std::uint64_t kCount = 64 * 2048;
  ASSERT_TRUE(engine->add({.name = "w", .count = kCount}).ok());
  ASSERT_TRUE(engine->seal().ok());
  const std::vector<float> gradient = values(kCount, 1);
  const auto step = [&] {
    ASSERT_TRUE(
        engine->wait(engine->put_grad(TensorId{0}, view_of(std::span(gradient)), ScalarType::fp32))
            .ok());
    ASSERT_TRUE(engine->wait(engine->step(step_options()).value().done).ok());
  };
  step();
  const Stats before = engine->stats();
  step();
  const Stats after = engine->stats();
  const bool split = GetParam() == StateFormat::split;
  EXPECT_EQ(after.nvme_read_bytes - before.nvme_read_bytes, (split ? 10 : 12) * kCount);
  EXPECT_EQ(after.nvme_written_bytes - before.nvme_written_bytes, 12 * kCount);
  EXPECT_GE(after.held.nvme_state, 2 * 12 * kCount);
}

TEST_P(Reusable, AnotherModelIsRefusedWithWhatDiffers) {
  const auto platform = real();
  ASSERT_TRUE(seal_it(*platform, options()).ok());
  EngineOptions other = options();
  other.format = GetParam() == StateFormat::fp32 ? StateFormat::split : StateFormat::fp32;
  const Status format = seal_it(*platform, other).status();
  EXPECT_EQ(format.code(), Code::invalid);
  EXPECT_TRUE(says(format, kSlabName) && says(format, "the state format is")) << format.message();
  const auto engine = Engine::open(*platform, options()).value();
  ASSERT_TRUE(engine->add({.name = "other", .count = 100'000}).ok());
  const Status model = engine->seal();
  EXPECT_EQ(model.code(), Code::invalid);
  EXPECT_TRUE(says(model, "the number of parameters is")) << model.message();
  EXPECT_TRUE(says(model, "remove the file")) << model.message();
  EXPECT_TRUE(seal_it(*platform, options()).ok());
}

TEST_P(Reusable, AfterARebootItIsRefused) {
  const auto disk = std::make_shared<SimulatedDisk>(64 * kMiB, 4096);
  const EngineOptions with = reusable({"/disk0"}, GetParam());
  const auto on = [&](const std::string& boot) {
    SimulationOptions options;
    options.disk = disk;
    options.boot_id = boot;
    return Platform::simulate(options);
  };
  EXPECT_TRUE(seal_it(*on("first"), with).ok());
  EXPECT_TRUE(seal_it(*on("first"), with).ok());
  const Status how = seal_it(*on("second"), with).status();
  EXPECT_EQ(how.code(), Code::unavailable);
  EXPECT_TRUE(says(how, "before this machine was started")) << how.message();
}

TEST_P(Reusable, ASecondEngineIsRefusedWithTheOwnersPid) {
  const auto platform = real();
  const auto engine = seal_it(*platform, options()).value();
  const Status how = seal_it(*platform, options()).status();
  EXPECT_EQ(how.code(), Code::locked);
  EXPECT_TRUE(says(how, "process " + std::to_string(::getpid()))) << how.message();
}

TEST_P(Reusable, NoFileIsReadByOthersOrReachedThroughALink) {
  const auto platform = real();
  ASSERT_TRUE(seal_it(*platform, options()).ok());
  EXPECT_EQ(std::filesystem::status(slab()).permissions(), std::filesystem::perms(0600));
  const std::filesystem::path moved = temporary_.path() / "moved";
  std::filesystem::rename(slab(), moved);
  std::filesystem::create_symlink(moved, slab());
  EXPECT_EQ(seal_it(*platform, options()).status().code(), Code::invalid);
}

TEST_P(Reusable, AFailedTransferIsDoneOnceMore) {
  for (const Direction direction : {Direction::read, Direction::write})
    for (const GroundKind ground : {GroundKind::simulated, GroundKind::posix}) {
      Faulty faulty(ground);
      const auto engine = faulty.open(reusable({faulty.path}, GetParam()));
      ASSERT_TRUE(train(*engine, 0, 2).ok());
      faulty.strike(FaultKind::error, direction, 2);
      ASSERT_TRUE(train(*engine, 2, 4).ok());
      EXPECT_EQ(hash(*engine).value(), hash_without_faults(4));
      EXPECT_EQ(faulty.script->struck(), 1u);
    }
}

// A step that fails for good: the engine stops, and the next one has the step before it.
TEST_P(Reusable, AfterAFailureTheLastWholeStepIsTakenUp) {
  for (const Direction direction : {Direction::read, Direction::write})
    for (std::uint64_t later = 0; later < 12; later += 2) {
      Faulty faulty(GroundKind::simulated, 5 + later);
      const EngineOptions with = reusable({faulty.path}, GetParam());
      auto engine = faulty.open(with);
      ASSERT_TRUE(train(*engine, 0, 2).ok());
      ASSERT_TRUE(hash(*engine).ok());
      Fault fault;
      fault.direction = direction;
      fault.first = faulty.script->seen(direction) + later;
      fault.every = 1;
      fault.times = 1000;
      faulty.script->add(fault);
      const Status trained = train(*engine, 2, 4);
      const Status read = hash(*engine).status();
      EXPECT_FALSE(trained.ok() && read.ok());
      EXPECT_FALSE(hash(*engine).ok());
      engine.reset();
      faulty.script->clear();
      engine = seal_it(*faulty.platform, with).value();
      const auto steps = static_cast<int>(engine->stats().steps);
      EXPECT_GE(steps, 2);
      EXPECT_EQ(hash(*engine).value(), hash_without_faults(steps)) << later;
      ASSERT_TRUE(train(*engine, steps, 5).ok());
      EXPECT_EQ(hash(*engine).value(), hash_without_faults(5));
    }
}

// Opening reads the header, then the two commit records.
TEST_P(Reusable, ACommitRecordThatCannotBeReadIsAnErrorAndNoStepIsLost) {
  for (const std::uint64_t times : {1, 2})
    for (std::uint64_t later = 0; later < 3; ++later) {
      Faulty faulty(GroundKind::simulated);
      const EngineOptions with = reusable({faulty.path}, GetParam());
      auto engine = faulty.open(with);
      ASSERT_TRUE(train(*engine, 0, 3).ok());
      engine.reset();
      Fault fault;
      fault.first = faulty.script->seen(Direction::read) + later;
      fault.every = 1;
      fault.times = times;
      faulty.script->add(fault);
      const Status how = seal_it(*faulty.platform, with).status();
      EXPECT_EQ(how.code(), times == 1 ? Code::ok : Code::io) << how.to_string();
      EXPECT_EQ(faulty.script->struck(), times);
      engine = seal_it(*faulty.platform, with).value();
      EXPECT_EQ(engine->stats().steps, 3u) << times << " times from read " << later;
      EXPECT_EQ(hash(*engine).value(), hash_without_faults(3));
    }
}

// Once an engine has gone on from the older record, the newer one must not come back.
TEST_P(Reusable, ADamagedRecordThatIsWholeAgainLaterIsNotTakenUp) {
  std::uint64_t least = 3;
  for (std::uint64_t later = 1; later < 3; ++later) {
    Faulty faulty(GroundKind::simulated);
    const EngineOptions with = reusable({faulty.path}, GetParam());
    auto engine = faulty.open(with);
    ASSERT_TRUE(train(*engine, 0, 3).ok());
    engine.reset();
    Fault flip{.kind = FaultKind::bit_flip, .every = 1, .times = 2, .amount = 100};
    flip.first = faulty.script->seen(Direction::read) + later;
    faulty.script->add(flip);
    engine = seal_it(*faulty.platform, with).value();
    EXPECT_EQ(faulty.script->struck(), 2u);
    const std::uint64_t taken = engine->stats().steps;
    least = std::min(least, taken);
    engine = nullptr;
    engine = seal_it(*faulty.platform, with).value();
    EXPECT_EQ(engine->stats().steps, taken);
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(static_cast<int>(taken)));
  }
  EXPECT_EQ(least, 2u);  // one of the two was the newer one
}

TEST_P(Reusable, ADamagedSlabIsAnErrorWhereverItIsDamaged) {
  const auto platform = real();
  std::uint64_t good = 0;
  {
    const auto engine = seal_it(*platform, options()).value();
    ASSERT_TRUE(write_weights(*engine).ok());
    ASSERT_TRUE(train(*engine, 0, 3).ok());
    good = hash(*engine).value();
  }
  std::ifstream in(slab(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const std::uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    std::string damaged = whole;
    const std::size_t at = random() % (i % 3 == 0 ? 3 * kSlabHeaderBytes : damaged.size());
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    if (i % 10 == 9) damaged.resize(at);
    std::ofstream(slab(), std::ios::binary) << damaged;
    const auto engine = seal_it(*platform, options());
    // What no record names may change as it likes; an older record may be taken up.
    if (engine.ok() && (*engine)->stats().steps == 3)
      EXPECT_EQ(hash(**engine).value(), good) << at;
    else if (!engine.ok())
      ++refused;
  }
  EXPECT_GT(refused, 10);
}

// Run by the test below in a process of its own, which is killed at any moment.
TEST(ReusableChild, DISABLED_TrainsUntilItIsKilled) {
  const char* const folder = std::getenv("HEADRACE_TEST_SLAB");
  ASSERT_NE(folder, nullptr);
  const auto platform = Platform::open().value();
  const auto engine = seal_it(*platform, reusable({folder}, StateFormat::split)).value();
  const Status ready = engine->stats().reopened ? Status() : write_weights(*engine);
  ASSERT_TRUE(ready.ok());
  for (int step = static_cast<int>(engine->stats().steps);; ++step) {
    ASSERT_TRUE(train(*engine, step, step + 1).ok());
    ASSERT_EQ(::write(STDOUT_FILENO, "\1", 1), 1);
  }
}

// Reads until the child has made so many steps, or has ended.
void wait_for_steps(int pipe, int steps) {
  char sign = 0;
  while (steps > 0 && ::read(pipe, &sign, 1) == 1) steps -= sign == '\1' ? 1 : 0;
}

void train_and_kill(const std::filesystem::path& folder, int steps, std::uint64_t microseconds) {
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const std::string variable = "HEADRACE_TEST_SLAB=" + folder.string();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execle("/proc/self/exe", "runtime_test", "--gtest_also_run_disabled_tests",
             "--gtest_filter=ReusableChild.*", nullptr,
             std::array<const char*, 2>{variable.c_str(), nullptr}.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  wait_for_steps(ends[0], steps);
  // Anywhere in the next step: when it has ended, or before.
  pollfd sign{ends[0], POLLIN, 0};
  const timespec at_most{0, static_cast<long>(microseconds * 1000)};
  ::ppoll(&sign, 1, &at_most, nullptr);
  ::kill(child, SIGKILL);
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFSIGNALED(how)) << "the child ended by itself";
  ::close(ends[0]);
}

// The lock goes with the last transfer of the killed one.
Result<std::unique_ptr<Engine>> open_when_free(Platform& platform, const EngineOptions& options) {
  const Nanoseconds give_up = Clock().now() + std::chrono::seconds(30);
  for (;;) {
    auto engine = seal_it(platform, options);
    if (engine.status().code() != Code::locked || Clock().now() > give_up) return engine;
    std::this_thread::yield();
  }
}

TEST(ReusableKilled, KilledAtAnyMomentTheLastWholeStepIsThere) {
  const std::uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  const EngineOptions with = reusable({folder.path()}, StateFormat::split);
  std::uint64_t steps = 0;
  for (int kill = 0; kill < 10; ++kill) {
    ASSERT_NO_FATAL_FAILURE(train_and_kill(folder.path(), 3, random() % 20'000));
    const auto platform = real();
    const auto engine = open_when_free(*platform, with);
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    EXPECT_TRUE((*engine)->stats().reopened);
    EXPECT_GE((*engine)->stats().steps, steps + 1);  // the last two may not be there yet
    steps = (*engine)->stats().steps;
    ASSERT_EQ(hash(**engine).value(), hash_without_faults(static_cast<int>(steps)));
  }
}

}  // namespace
}  // namespace headrace
