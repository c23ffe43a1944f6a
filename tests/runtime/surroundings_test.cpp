// What a machine may lack or lose: room on the drive, io_uring, the scratch file itself.
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "tests/io/refused_calls.h"
#include "tests/runtime/faulty_model.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using namespace small;

TEST(Surroundings, AFullSimulatedDiskIsAnErrorAtStartWithBothSizes) {
  SimulationOptions simulation;
  simulation.disk_bytes = 200 * kKiB;
  const auto platform = Platform::simulate(simulation);
  const auto engine = Engine::open(*platform, options_of({.place = Place::nvme}, "/disk0")).value();
  ASSERT_TRUE(add_all(*engine).ok());
  const Status how = engine->seal();
  EXPECT_EQ(how.code(), Code::out_of_space) << how.to_string();
  for (const std::string& word : {format_bytes(200 * kKiB), std::string("/disk0")})
    EXPECT_NE(how.message().find(word), std::string_view::npos) << how.to_string();
  EXPECT_EQ(platform->device().use(Home::host).peak, 0u);
  EXPECT_EQ(platform->queue_for("/disk0").value()->folders().free_bytes("/disk0").value(),
            200 * kKiB);
}

// Ten times what is free: refused by the file system's own figures, at once.
TEST(Surroundings, ARealDiskThatIsTooSmallIsAnErrorAtStart) {
  const TemporaryFolder folder, roots;
  fs::create_directory(roots.path() / "proc");
  std::ofstream(roots.path() / "proc/meminfo") << "MemAvailable: 99999999999999 kB\n";  // plenty
  PlatformOptions machine;
  machine.io = IoBackend::posix;
  machine.system = {roots.path() / "cgroup", roots.path() / "proc"};
  const auto platform = Platform::open(machine).value();
  const std::uint64_t free = fs::space(folder.path()).available;
  const auto engine =
      Engine::open(*platform, {.state = StateHome::nvme, .nvme_paths = {folder.path()}}).value();
  ASSERT_TRUE(engine->add({.name = "huge", .count = free}).ok());  // 10 bytes of state each
  const Status how = engine->seal();
  EXPECT_EQ(how.code(), Code::out_of_space) << how.to_string();
  EXPECT_NE(how.message().find("free there"), std::string_view::npos) << how.to_string();
  EXPECT_EQ(platform->device().use(Home::host).peak, 0u);
  EXPECT_TRUE(folder.empty());
}

// Trains with whatever the platform chooses; gives the hash, and every message.
std::string trained_with_messages(const fs::path& folder) {
  std::string text;
  int messages = 0;
  const auto platform = Platform::open().value();
  EngineOptions options = options_of({.place = Place::nvme}, folder);
  options.on_message = [&](std::string_view message) {
    if (message.find("io_uring") == std::string_view::npos) return;
    ++messages;
    text += fmt::format(" {}", message);
  };
  const auto engine = Engine::open(*platform, options).value();
  if (const Status how = build(*engine); !how.ok()) return how.to_string();
  if (const Status how = train(*engine, 0, 2); !how.ok()) return how.to_string();
  return fmt::format("{} {}{}", hash(*engine).value(), messages, text);
}

TEST(Surroundings, WithoutIoUringTheEngineWorksThroughThreadsAndSaysSoOnce) {
  const TemporaryFolder folder;
  const std::string expected = fmt::format("{} 1 ", hash_without_faults(2));
  for (const int error : {EPERM, ENOSYS}) {
    const std::string said = in_child({{.call = SYS_io_uring_setup, .error = error}},
                                      [&] { return trained_with_messages(folder.path()); });
    EXPECT_TRUE(said.starts_with(expected)) << said << " instead of " << expected;
    EXPECT_NE(said.find("threads"), std::string::npos) << said;
  }
}

// Every unnamed file of this process in the folder is cut to nothing; how many those are.
int truncate_scratch_files(const fs::path& folder) {
  int found = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone);
    if (gone || !target.starts_with(folder.string() + "/")) continue;
    EXPECT_EQ(::truncate(entry.path().c_str(), 0), 0) << target;
    ++found;
  }
  return found;
}

TEST(Surroundings, AScratchFileThatIsCutIsCorruptAndNotACrash) {
  for (const GroundKind kind : {GroundKind::posix, GroundKind::uring}) {
    Faulty faulty(kind);
    if (faulty.missing()) continue;
    const auto engine = faulty.open();
    ASSERT_TRUE(train(*engine, 0, 1).ok());
    ASSERT_TRUE(floats_of(*engine, kHalf, Kind::master).ok());  // waits for the step
    ASSERT_TRUE(floats_of(*engine, kOnce, Kind::master).ok());
    EXPECT_EQ(truncate_scratch_files(faulty.path), 1);
    const Status read = floats_of(*engine, kBig, Kind::master).status();
    EXPECT_EQ(read.code(), Code::corrupt) << read.to_string();
    EXPECT_NE(read.message().find("ends at"), std::string_view::npos) << read.to_string();
    ASSERT_TRUE(put(*engine, kBig, 1).ok());
    const StepReport report = engine->step(step_options()).value();
    EXPECT_EQ(engine->wait(report.done).code(), Code::corrupt);
    EXPECT_EQ(engine->acquire(UnitId{0}).status().code(), Code::poisoned);
    EXPECT_TRUE(engine->close(std::chrono::seconds(10)).ok());
  }
}

}  // namespace
}  // namespace headrace
