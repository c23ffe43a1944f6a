// Power cuts while an engine saves: whatever a drive then has of what was not synced, the folder
// holds the last checkpoint whose save returned, or a newer one, with the right bits.
#include <fmt/format.h>

#include <random>

#include "io/simulated_engine.h"
#include "tests/runtime/failing_engine.h"
#include "tests/runtime/small_model.h"

namespace headrace {
namespace {

using namespace small;

constexpr const char* kFolder = "/runs/ckpt";
constexpr int kMostSteps = 12;
constexpr std::uint64_t kDiskBytes = 4 * kMiB;
#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kSeeds = 40;  // of one thread, and a hundred times as slow
#else
constexpr std::uint64_t kSeeds = 300;
#endif

// A computer whose calls to the drive end at the one that the script names.
class Computer {
 public:
  Computer(std::shared_ptr<SimulatedDisk> disk, std::uint64_t seed) {
    SimulationOptions options;
    options.seed = seed;
    options.wrap_engine = [disk, seed, script = script_](std::unique_ptr<IoEngine>, Clock& clock) {
      SimulatedDrive drive;
      drive.seed = seed;
      return std::make_unique<FailingEngine>(simulated_engine(disk, drive, clock), script);
    };
    platform_ = Platform::simulate(options);
    engine_ = Engine::open(*platform_, options_of({.place = Place::dram}, "")).value();
    for (const TensorSpec& spec : specs_small()) EXPECT_TRUE(engine_->add(spec).ok());
    EXPECT_TRUE(engine_->seal().ok());
  }

  Engine& engine() { return *engine_; }
  int step() const { return static_cast<int>(engine_->steps_of(TensorId{0}).value()); }
  Status train_one() {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const auto from = values(specs_small()[i].count, static_cast<std::uint64_t>(step()) * 2 + i);
      HEADRACE_TRY(engine_->wait(
          engine_->put_grad(TensorId{i}, view_of(std::span(from)), ScalarType::fp32)));
    }
    return engine_->step(step_options()).status();
  }
  void end_at(std::size_t call) {
    script_->reset();
    script_->first = call;
  }

  static std::vector<TensorSpec> specs_small() {
    std::vector<TensorSpec> all(3);
    all[0].name = "a";
    all[0].count = 1'500;
    all[1].name = "b";
    all[1].count = 300;
    all[1].param = ScalarType::fp32;
    all[1].group = GroupId{1};
    all[2].name = "frozen";
    all[2].count = 200;
    all[2].trainable = false;
    return all;
  }

 private:
  const std::shared_ptr<FailureScript> script_ = std::make_shared<FailureScript>();
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<Engine> engine_;
};

std::shared_ptr<SimulatedDisk> new_disk() {
  auto disk = std::make_shared<SimulatedDisk>(kDiskBytes, 4096);
  disk->make_folders("/runs");
  disk->log_power();
  return disk;
}

// What an engine that is never interrupted has after so many steps.
const std::vector<std::uint64_t>& hashes() {
  static const std::vector<std::uint64_t> all = [] {
    Computer computer(new_disk(), 1);
    std::vector<std::uint64_t> found = {computer.engine().state_hash().value()};
    for (int i = 0; i < kMostSteps; ++i) {
      EXPECT_TRUE(computer.train_one().ok());
      found.push_back(computer.engine().state_hash().value());
    }
    return found;
  }();
  return all;
}

// And beside the space that the next save writes over.
std::uint64_t free_beside_a_checkpoint() {
  static const std::uint64_t free = [] {
    const auto disk = new_disk();
    Computer computer(disk, 1);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(computer.engine().save(kFolder).ok());
    return disk->free_bytes();
  }();
  return free;
}

struct Run {
  std::uint64_t seed;
  std::mt19937_64 random{seed};
  std::shared_ptr<SimulatedDisk> disk = new_disk();
  int saved = -1;  // the step of the last save that returned well
  int tried = -1;  // of the last one that was begun

  // The folder after a power cut, as a fresh engine finds it.
  void come_back(Computer& computer) {
    const Status how = computer.engine().load(kFolder).status();
    if (!how.ok()) {
      ASSERT_EQ(saved, -1) << how.to_string();
      ASSERT_EQ(how.code(), Code::invalid) << how.to_string();  // there is none
      return;
    }
    ASSERT_GE(computer.step(), saved);
    ASSERT_LE(computer.step(), tried);
    ASSERT_EQ(computer.engine().state_hash().value(),
              hashes()[static_cast<std::size_t>(computer.step())]);
  }

  // Saves once, or a few times; in the last one the power goes, or right after it.
  void live() {
    Computer computer(disk, random());
    ASSERT_NO_FATAL_FAILURE(come_back(computer));
    const std::uint64_t saves = 1 + random() % 3;
    for (std::uint64_t i = 0; i < saves && computer.step() < kMostSteps; ++i) {
      ASSERT_TRUE(computer.train_one().ok());
      if (i + 1 == saves) computer.end_at(random() % 24);
      tried = computer.step();
      if (computer.engine().save(kFolder).ok()) saved = tried;
    }
  }

  // A whole save leaves no trace of the broken ones.
  void end() {
    Computer computer(disk, random());
    ASSERT_NO_FATAL_FAILURE(come_back(computer));
    for (int i = 0; i < 2; ++i) {
      const Status how = computer.engine().save(kFolder);
      ASSERT_TRUE(how.ok()) << how.to_string();
    }
    EXPECT_EQ(disk->free_bytes(), free_beside_a_checkpoint()) << "something was left behind";
  }
};

void cut_power_in(std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Run run{seed};
  for (std::uint64_t lives = 1 + run.random() % 3; lives > 0; --lives) {
    ASSERT_NO_FATAL_FAILURE(run.live());
    run.disk->cut_power(run.random());
  }
  run.end();
}

TEST(PowerCut, TheLastFinishedCheckpointOrANewerOneIsThereWithTheRightBits) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) cut_power_in(seed);
}

TEST(StressPowerCut, TheLastFinishedCheckpointOrANewerOneIsThereWithTheRightBits) {
  const std::uint64_t first = std::random_device()();
  for (std::uint64_t seed = first; seed < first + 3'000; ++seed) cut_power_in(seed);
}

}  // namespace
}  // namespace headrace
