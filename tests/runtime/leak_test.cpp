// Nothing adds up: descriptors, mappings, deleted files that are still open, resident memory.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/runtime/small_model.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // which keep freed memory, and take their time
#else
constexpr bool kSanitized = false;
#endif

namespace headrace {
namespace {

namespace fs = std::filesystem;
using namespace small;
using std::chrono::seconds;

constexpr int kWarmUp = 10;
constexpr int kCycles = kSanitized ? 30 : 300;

struct Seen {
  int descriptors = 0, deleted = 0, mappings = 0;
  std::uint64_t resident = 0;
};

Seen look() {
  Seen seen;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone);
    ++seen.descriptors;
    seen.deleted += target.ends_with("(deleted)") ? 1 : 0;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++seen.mappings;
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  seen.resident = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return seen;
}

// Malloc and thread stacks are the C library's: they vary, and do not grow with the cycles.
void expect_no_more(const Seen& after, const Seen& before) {
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.deleted, before.deleted);
  EXPECT_LE(after.mappings, before.mappings + 40);
  if (kSanitized) return;
  EXPECT_LE(after.resident, before.resident + 16 * kMiB);
}

Status cycle(Platform& platform, const fs::path& folder) {
  HEADRACE_ASSIGN(const auto engine,
                  Engine::open(platform, options_of({.place = Place::nvme}, folder)));
  HEADRACE_TRY(engine->add({.name = "a", .count = 5000}).status());
  HEADRACE_TRY(engine->seal());
  const std::vector<float> source(5000, 0.5F);
  HEADRACE_TRY(engine->wait(
      engine->put_grad(TensorId{0}, view_of(std::span<const float>(source)), ScalarType::fp32)));
  HEADRACE_ASSIGN(const StepReport report, engine->step(step_options()));
  HEADRACE_TRY(engine->wait(report.done));
  return engine->close(seconds(60));
}

// Files that were in the ring's table are closed by the queue's thread, soon after.
Status settle(Platform& platform, const fs::path& folder) {
  HEADRACE_ASSIGN(IoQueue * queue, platform.queue_for(folder));
  for (int i = 0; i < 3; ++i)
    HEADRACE_TRY(platform.wait(queue->unregister_memory({}), seconds(60)));
  return {};
}

class Leaks : public testing::TestWithParam<GroundKind> {
 protected:
  std::unique_ptr<Platform> open() const {
    const IoBackend io = GetParam() == GroundKind::uring ? IoBackend::uring : IoBackend::posix;
    return Platform::open({.io = io}).value();
  }
  void SetUp() override {
    if (const auto queue = open()->queue_for(folder.path()); !queue.ok())
      GTEST_SKIP() << queue.status().to_string();
  }
  const TemporaryFolder folder;
};

TEST_P(Leaks, EnginesOnOnePlatformLeaveNothing) {
  const auto platform = open();
  Seen before;
  for (int i = 0; i < kWarmUp + kCycles; ++i) {
    const Status how = cycle(*platform, folder.path());
    ASSERT_TRUE(how.ok()) << how.to_string();
    if (i + 1 != kWarmUp) continue;
    ASSERT_TRUE(settle(*platform, folder.path()).ok());
    before = look();
  }
  ASSERT_TRUE(settle(*platform, folder.path()).ok());
  expect_no_more(look(), before);
  EXPECT_EQ(platform->device().use(Home::host).used, 0u);
  EXPECT_TRUE(folder.empty());
}

TEST_P(Leaks, PlatformsLeaveNothing) {
  Seen before;
  for (int i = 0; i < kWarmUp + kCycles; ++i) {
    const Status how = cycle(*open(), folder.path());  // which is gone then
    ASSERT_TRUE(how.ok()) << how.to_string();
    if (i + 1 == kWarmUp) before = look();
  }
  expect_no_more(look(), before);
}

// The same with engines that end in the middle of a step.
TEST_P(Leaks, EnginesThatEndUnfinishedLeaveNothing) {
  const auto platform = open();
  Seen before;
  for (int i = 0; i < kWarmUp + kCycles / 3; ++i) {
    const auto engine =
        Engine::open(*platform, options_of({.place = Place::nvme}, folder.path())).value();
    ASSERT_TRUE(engine->add({.name = "a", .count = 5000}).ok());
    ASSERT_TRUE(engine->seal().ok());
    const std::vector<float> source(5000, 0.5F);
    const Event in =
        engine->put_grad(TensorId{0}, view_of(std::span<const float>(source)), ScalarType::fp32);
    static_cast<void>(engine->step(step_options()));
    ASSERT_TRUE(engine->close(seconds(60)).ok());
    EXPECT_TRUE(in.done());
    if (i + 1 != kWarmUp) continue;
    ASSERT_TRUE(settle(*platform, folder.path()).ok());
    before = look();
  }
  ASSERT_TRUE(settle(*platform, folder.path()).ok());
  expect_no_more(look(), before);
}

INSTANTIATE_TEST_SUITE_P(Grounds, Leaks, testing::Values(GroundKind::posix, GroundKind::uring),
                         ground_name);

}  // namespace
}  // namespace headrace
