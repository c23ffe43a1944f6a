// An engine on the real machine, with something wrong about it: the drive, the memory, the limits,
// io_uring. Either the same bits, or an error that says what to do.
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include <fstream>

#include "tests/io/refused_calls.h"
#include "tests/runtime/faulty_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using namespace small;
using std::chrono::milliseconds;
using std::chrono::seconds;

void expect_words(const Status& how, std::initializer_list<std::string> words) {
  for (const std::string& word : words)
    EXPECT_NE(how.message().find(word), std::string_view::npos)
        << word << " in " << how.to_string();
}

// A file system of its own; needs a privilege.
class Mount {
 public:
  Mount(const char* kind, const char* options)
      : mounted_(::mount("none", folder_.path().c_str(), kind, 0, options) == 0) {}
  ~Mount() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  explicit operator bool() const { return mounted_; }
  const fs::path& path() const { return folder_.path(); }

 private:
  const TemporaryFolder folder_;
  const bool mounted_;
};

class OnEachEngine : public testing::TestWithParam<GroundKind> {
 protected:
  IoBackend io() const {
    return GetParam() == GroundKind::uring ? IoBackend::uring : IoBackend::posix;
  }
  void SetUp() override {
    const auto platform = Platform::open({.io = io()}).value();
    if (const auto queue = platform->queue_for(folder.path()); !queue.ok())
      GTEST_SKIP() << queue.status().to_string();
  }
  const TemporaryFolder folder;
};
INSTANTIATE_TEST_SUITE_P(Grounds, OnEachEngine,
                         testing::Values(GroundKind::posix, GroundKind::uring), ground_name);

TEST_P(OnEachEngine, ShortTransfersNoProgressAndInterruptionsChangeNoBits) {
  Faulty faulty(GetParam());
  for (const Direction direction : {Direction::read, Direction::write}) {
    faulty.script->add({FaultKind::short_transfer, direction, 1, 5, 1000, 0, 4096});
    faulty.script->add({FaultKind::short_transfer, direction, 2, 7, 1000, 0, 12'288});
    faulty.script->add({FaultKind::error, direction, 3, 3, 1000, EINTR});
    faulty.script->add({FaultKind::error, direction, 4, 6, 1000, EAGAIN});
  }
  faulty.script->add({FaultKind::zero_progress, Direction::write, 6, 11, 1000});
  const auto engine = faulty.open();
  ASSERT_TRUE(train(*engine, 0, 3).ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(3));
  EXPECT_GT(faulty.script->struck(), 50u);
}

TEST_P(OnEachEngine, AFailingDriveIsNamedPoisonsAndTheLastCheckpointRepairs) {
  for (const Direction direction : {Direction::read, Direction::write}) {
    Faulty faulty(GetParam());
    const auto engine = faulty.open();
    ASSERT_TRUE(train(*engine, 0, 1).ok());
    ASSERT_TRUE(engine->save(faulty.path / "checkpoint").ok());
    ASSERT_TRUE(put_all(*engine, 1).ok());
    faulty.strike(FaultKind::error, direction, 2);
    const Status how = engine->wait(engine->step(step_options()).value().done);
    EXPECT_EQ(how.code(), Code::io) << how.to_string();
    expect_words(
        how, {"scratch file in " + faulty.path.string(), " at ", "bytes", "Input/output error"});
    EXPECT_EQ(engine->acquire(UnitId{0}).status().code(), Code::poisoned);
    ASSERT_TRUE(engine->load(faulty.path / "checkpoint").ok());
    ASSERT_TRUE(train(*engine, 1, 2).ok());
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(2));
  }
}

// The report of the engine that waits; and the platform's other engines go on, also before it is
// closed.
TEST(NeverCompletes, IsReportedInFullAndHoldsUpNoOtherEngine) {
  for (const GroundKind kind : {GroundKind::simulated, GroundKind::posix, GroundKind::uring})
    for (const Direction direction : {Direction::read, Direction::write}) {
      if (kind == GroundKind::posix && direction == Direction::write) continue;  // uring does it
      if (kind == GroundKind::uring && direction == Direction::read) continue;
      Faulty faulty(kind);
      if (faulty.missing()) continue;
      EngineOptions options = faulty.options();
      options.deadline = seconds(4);  // a busy machine must not look like one that hangs
      auto stuck = faulty.open(options);
      auto other = faulty.open();
      ASSERT_TRUE(hash(*stuck).ok());
      ASSERT_TRUE(hash(*other).ok());
      ASSERT_TRUE(put_all(*stuck, 0).ok());
      faulty.strike(FaultKind::never_completes, direction, 1);
      const Event done = stuck->step(step_options()).value().done;
      const Status how = stuck->wait(done);
      EXPECT_EQ(how.code(), Code::timeout) << how.to_string();
      expect_words(how, {direction == Direction::read ? "read of" : "write of", "scratch file in",
                         faulty.path.string(), " at ", " bytes", "s ago", "queue nvme0", "parked",
                         "in flight", "tiers: slots", "nvme "});
      ASSERT_TRUE(train(*other, 0, 2).ok());
      EXPECT_EQ(hash(*other).value(), hash_without_faults(2));
      EXPECT_EQ(stuck->close(milliseconds(10)).code(), Code::timeout);
      stuck.reset();
      ASSERT_TRUE(train(*other, 2, 3).ok());
      EXPECT_EQ(hash(*other).value(), hash_without_faults(3));
      EXPECT_TRUE(other->close(seconds(60)).ok());
    }
}

// Without any wait of its own: closing it is enough.
TEST(NeverCompletes, ClosingAnEngineFreesTheLaneForOthers) {
  for (const GroundKind kind : {GroundKind::simulated, GroundKind::posix}) {
    Faulty faulty(kind);
    auto stuck = faulty.open();
    auto other = faulty.open();
    ASSERT_TRUE(hash(*stuck).ok());
    ASSERT_TRUE(put_all(*stuck, 0).ok());
    faulty.strike(FaultKind::never_completes, Direction::read);
    const Event done = stuck->step(step_options()).value().done;
    EXPECT_EQ(faulty.platform->wait(done, milliseconds(100)).code(), Code::timeout);
    EXPECT_EQ(stuck->close(milliseconds(10)).code(), Code::timeout);
    ASSERT_TRUE(train(*other, 0, 2).ok());
    EXPECT_EQ(hash(*other).value(), hash_without_faults(2));
  }
}

TEST_P(OnEachEngine, AlignmentOf64KiBGivesTheSameBits) {
  const auto platform = Platform::open({.io = io()}).value();
  EngineOptions options = options_of({.place = Place::nvme}, folder.path());
  options.nvme_alignment = 65'536;
  const auto engine = Engine::open(*platform, options).value();
  ASSERT_TRUE(build(*engine).ok());
  ASSERT_TRUE(train(*engine, 0, 3).ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(3));
  EXPECT_EQ(engine->stats().held.nvme_state % 65'536, 0u);
}

std::string trained_in(const fs::path& folder, const PlatformOptions& with) {
  const auto platform = Platform::open(with).value();
  const auto engine = Engine::open(*platform, options_of({.place = Place::nvme}, folder)).value();
  if (const Status how = build(*engine); !how.ok()) return how.to_string();
  if (const Status how = train(*engine, 0, 2); !how.ok()) return how.to_string();
  std::string said;
  for (const std::string& message : platform->messages()) said += "\n" + message;
  return std::to_string(hash(*engine).value()) + said;
}

// tmpfs has none that skips the page cache; what it costs is said.
TEST_P(OnEachEngine, WithoutDirectIoItTrainsAndSaysSo) {
  const Mount memory("tmpfs", "size=64m");
  const fs::path parent = memory ? memory.path() : fs::path("/dev/shm");
  std::error_code none;
  if (!fs::is_directory(parent, none)) GTEST_SKIP() << "no right to mount, and no /dev/shm";
  const TemporaryFolder place(parent);
  const std::string said = trained_in(place.path(), {.io = io()});
  EXPECT_TRUE(said.starts_with(std::to_string(hash_without_faults(2)))) << said;
  EXPECT_NE(said.find("page cache"), std::string::npos) << said;
  EXPECT_TRUE(place.empty());
}

// ramfs cannot reserve space either, so that scratch is refused; a checkpoint may lie there.
TEST_P(OnEachEngine, AFileSystemThatCannotReserveIsRefusedForScratchAndTakesCheckpoints) {
  const Mount memory("ramfs", "");
  if (!memory) GTEST_SKIP() << "no right to mount a ramfs";
  const std::string said = trained_in(memory.path(), {.io = io()});
  EXPECT_TRUE(said.starts_with("unavailable: ")) << said;
  EXPECT_NE(said.find("cannot reserve space (fallocate)"), std::string::npos) << said;
  EXPECT_NE(said.find(memory.path().string()), std::string::npos) << said;
  const auto platform = Platform::open({.io = io()}).value();
  const auto engine =
      Engine::open(*platform, options_of({.place = Place::nvme}, folder.path())).value();
  ASSERT_TRUE(build(*engine).ok());
  ASSERT_TRUE(train(*engine, 0, 2).ok());
  const Status saved = engine->save(memory.path() / "checkpoint");
  ASSERT_TRUE(saved.ok()) << saved.to_string();
  ASSERT_TRUE(train(*engine, 2, 3).ok());
  ASSERT_TRUE(engine->load(memory.path() / "checkpoint").ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(2));
}

// A file takes the room in between, so that the second save finds less than it needs.
TEST_P(OnEachEngine, AFullDiskAtASaveKeepsTheLastCheckpointAndTrainingGoesOn) {
  const Mount small_disk("tmpfs", "size=8m");
  if (!small_disk) GTEST_SKIP() << "no right to mount a tmpfs; a simulated disk has this test too";
  const fs::path checkpoint = small_disk.path() / "checkpoint";
  const auto platform = Platform::open({.io = io()}).value();
  const auto engine =
      Engine::open(*platform, options_of({.place = Place::nvme}, folder.path())).value();
  ASSERT_TRUE(build(*engine).ok());
  ASSERT_TRUE(train(*engine, 0, 1).ok());
  const Status first = engine->save(checkpoint);
  ASSERT_TRUE(first.ok()) << first.to_string();
  const std::uint64_t left = fs::space(small_disk.path()).available - 100 * kKiB;
  std::ofstream(small_disk.path() / "others") << std::string(left, 'x');
  const std::uint64_t free = fs::space(small_disk.path()).available;
  ASSERT_TRUE(train(*engine, 1, 2).ok());
  const Status how = engine->save(checkpoint);
  EXPECT_EQ(how.code(), Code::out_of_space) << how.to_string();
  expect_words(how, {small_disk.path().string(), format_bytes(free)});
  EXPECT_EQ(fs::space(small_disk.path()).available, free);  // it wrote nothing
  ASSERT_TRUE(train(*engine, 2, 3).ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(3));
  ASSERT_TRUE(engine->load(checkpoint).ok());
  EXPECT_EQ(hash(*engine).value(), hash_without_faults(1));
  fs::remove(small_disk.path() / "others");
  ASSERT_TRUE(train(*engine, 1, 2).ok());
  EXPECT_TRUE(engine->save(checkpoint).ok());
}

TEST(Uring, WithAnOperationMissingThreadsDoItAndOneLineSaysSo) {
  const TemporaryFolder folder;
  const std::string said = trained_in(folder.path(), {.uring = {.without = IORING_OP_READ_FIXED}});
  const std::string hash = std::to_string(hash_without_faults(2));
  EXPECT_TRUE(said.starts_with(hash + "\nreading and writing with threads")) << said;
  EXPECT_EQ(said.find("threads"), said.rfind("with threads") + 5) << said;
  const Status alone = Platform::open({.io = IoBackend::uring, .uring = {.without = 0x16}})
                           .value()
                           ->queue_for(folder.path())
                           .status();
  EXPECT_EQ(alone.code(), Code::unavailable) << alone.to_string();
}

// Of this process, for good.
bool drop_right_to_lock() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  const std::uint32_t lock = std::uint32_t{1} << CAP_IPC_LOCK;
  for (std::uint32_t* set : {&data[0].effective, &data[0].permitted, &data[0].inheritable})
    *set &= ~lock;
  return ::syscall(SYS_capset, &header, data) == 0;
}

TEST_P(OnEachEngine, With64KiBOfLockedMemoryItTrains) {
  const std::string said = in_child({}, [this] {
    const rlimit little{64 * kKiB, 64 * kKiB};
    if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0 || !drop_right_to_lock())
      return std::string("cannot be limited");
    return trained_in(folder.path(), {.io = io()});
  });
  // All processes of a user share what it may lock.
  if (said.find("too little memory may be locked") != std::string::npos)
    GTEST_SKIP() << "other processes of this user have locked what it may: " << said;
  EXPECT_TRUE(said.starts_with(std::to_string(hash_without_faults(2)))) << said;
}

// A tree of a test's own: a job that may have `limit`, of which it uses `used`.
SystemRoots machine_with(const fs::path& root, std::uint64_t limit, std::uint64_t used) {
  fs::create_directories(root / "cgroup/job");
  fs::create_directories(root / "proc/self");
  std::ofstream(root / "proc/self/cgroup") << "0::/job\n";
  std::ofstream(root / "proc/meminfo") << "MemTotal: 99999999 kB\nMemAvailable: 99999999 kB\n";
  std::ofstream(root / "cgroup/job/memory.max") << limit << "\n";
  std::ofstream(root / "cgroup/job/memory.current") << used << "\n";
  return {root / "cgroup", root / "proc"};
}

TEST(Memory, ACgroupThatIsTooSmallIsRefusedBeforeAnythingIsAllocated) {
  for (const ParamHome params : {ParamHome::dram, ParamHome::hbm, ParamHome::streamed}) {
    const TemporaryFolder root, folder;
    PlatformOptions options{.io = IoBackend::posix};
    options.system = machine_with(root.path(), 64 * kMiB, 62 * kMiB);
    const auto platform = Platform::open(options).value();
    EngineOptions with = options_of({.place = Place::nvme}, folder.path());
    with.params = params;
    const auto engine = Engine::open(*platform, with).value();
    ASSERT_TRUE(add_all(*engine).ok());
    const Status how = engine->seal();
    EXPECT_EQ(how.code(), Code::out_of_memory) << how.to_string();
    expect_words(how, {"cgroup/job/memory.max", "leaves " + format_bytes(2 * kMiB), "slots",
                       "gradients", "raise the limit"});
    EXPECT_EQ(platform->device().use(Home::host).peak, 0u);
    EXPECT_EQ(platform->device().use(Home::device).peak, 0u);
    EXPECT_TRUE(platform->usage().empty() || platform->usage().front().operations == 0);
    static_cast<void>(machine_with(root.path(), 64 * kMiB, kMiB));  // others have gone
    EXPECT_TRUE(engine->seal().ok());
  }
}

}  // namespace
}  // namespace headrace
