// A fork of a process with an open engine: none of its threads and none of its memory are there.
#include <fmt/format.h>

#include <algorithm>

#include "tests/runtime/small_model.h"
#include "tests/support/child.h"

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadsAfterFork = false;  // the sanitizer ends a process that starts some
#else
constexpr bool kThreadsAfterFork = true;
#endif

namespace headrace {
namespace {

using namespace small;
using std::chrono::seconds;

Event put_one(Engine& engine, const std::vector<float>& source) {
  return engine.put_grad(kBig, view_of(std::span<const float>(source)), ScalarType::fp32);
}

// What every call of the engine says, a line each.
std::string say_all(Engine& engine, Platform& platform, const std::filesystem::path& folder) {
  std::vector<float> one(1);
  const std::vector<float> source = gradient(kBig, 1);
  const Status all[] = {
      engine.add({.name = "more"}).status(),
      engine.seal(),
      engine.acquire(UnitId{0}).status(),
      put_one(engine, source).status(),
      engine.step(step_options()).status(),
      engine.drop_gradients(),
      engine.read(kNorm, Kind::master, {0, 1}, view_of(std::span(one))),
      engine.write(kNorm, Kind::master, {0, 1}, view_of(std::span<const float>(one))),
      engine.steps_of(kBig).status(),
      engine.state_hash().status(),
      engine.save(folder / "checkpoint"),
      engine.load(folder / "checkpoint").status(),
      engine.wait({}),
      engine.close(seconds(10)),
      platform.wait({}, seconds(10)),
      platform.queue_for(folder).status(),
      Engine::open(platform, {}).status(),
  };
  std::string text;
  for (const Status& how : all) text += how.to_string() + "\n";
  return text + fmt::format("{} bytes held", engine.stats().held.dram());
}

void expect_all_refused(const std::string& text, pid_t child) {
  const std::string both = fmt::format("process {}, and this is process {}", ::getpid(), child);
  std::size_t at = 0;
  for (int call = 0; call < 17; ++call) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    EXPECT_TRUE(line.starts_with("invalid: ")) << call << ": " << line;
    EXPECT_NE(line.find(both), std::string::npos) << call << ": " << line;
    EXPECT_NE(line.find("before they are opened"), std::string::npos) << call << ": " << line;
    at = std::min(end + 1, text.size());
  }
  EXPECT_EQ(text.substr(at), "0 bytes held\n");
}

class Fork : public testing::TestWithParam<GroundKind> {
 protected:
  Fork() : running({.ground = GetParam(), .place = Place::nvme}) {}
  void SetUp() override {
    if (const std::string why = running.ground.missing(); !why.empty()) GTEST_SKIP() << why;
  }
  Running running;
};

TEST_P(Fork, EveryCallInTheChildIsRefusedWithBothProcesses) {
  ASSERT_TRUE(train(*running, 0, 1).ok());
  Child child([&](const Child::Tell&) {
    return say_all(*running, running.ground.platform(), running.ground.folder(0));
  });
  const pid_t pid = child.pid();
  expect_all_refused(child.rest(), pid);
}

// With a step, and a lease, under way in the parent.
TEST_P(Fork, TheChildMayLetGoOfEverythingAndTheParentGoesOn) {
  std::vector<float> source = gradient(kBig, 0);
  ASSERT_TRUE(train(*running, 0, 1).ok());
  auto platform = Platform::open().value();
  auto engine =
      Engine::open(*platform, options_of({.place = Place::nvme}, running.ground.folder(0))).value();
  ASSERT_TRUE(build(*engine).ok());
  Lease lease = engine->acquire(UnitId{0}).value();
  static_cast<void>(put_one(*engine, source));
  Child child([&](const Child::Tell&) {
    const bool seen = lease.param(kTable).size > 0;
    lease.release();
    engine.reset();
    platform.reset();
    running.engine.reset();
    return std::string(seen ? "it sees parameters" : "gone");
  });
  EXPECT_EQ(child.rest(), "gone\n");
  ASSERT_TRUE(train(*running, 1, 2).ok());
  const Running plain({.place = Place::dram});
  ASSERT_TRUE(train(*plain, 0, 2).ok());
  EXPECT_EQ(hash(*running).value(), hash(*plain).value());
}

TEST_P(Fork, TheChildMayOpenItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan starts no threads in a fork of a process with threads";
#endif
  if (!kThreadsAfterFork) GTEST_SKIP() << "no threads after a fork under ThreadSanitizer";
  ASSERT_TRUE(train(*running, 0, 1).ok());
  Child child([&](const Child::Tell&) {
    const Running own({.ground = GetParam(), .place = Place::nvme});
    const Status how = train(*own, 0, 2);
    return how.ok() ? std::to_string(hash(*own).value()) : how.to_string();
  });
  ASSERT_TRUE(train(*running, 1, 2).ok());
  EXPECT_EQ(child.rest(), std::to_string(hash(*running).value()) + "\n");
}

INSTANTIATE_TEST_SUITE_P(Grounds, Fork, testing::Values(GroundKind::posix, GroundKind::uring),
                         ground_name);

}  // namespace
}  // namespace headrace
