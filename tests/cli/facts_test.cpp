#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/disk_facts.h"
#include "cli/fact.h"
#include "cli/machine_facts.h"
#include "io/bytes.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Not well, and says what to do.
void expect_advice(const Fact& fact, Verdict verdict) {
  EXPECT_EQ(fact.verdict, verdict) << fact.text;
  EXPECT_FALSE(fact.next.empty()) << fact.text;
}

Cpu four_cpus() {
  Cpu cpu{.model = "A CPU", .targets = {"AVX2", "SCALAR"}};
  cpu.topology = {.nodes = {{.cpus = {0, 1, 2, 3}, .cores = 2, .memory_bytes = kGiB}}, .cores = 2};
  return cpu;
}

TEST(CpuFact, NamesThreadsCoresAndInstructions) {
  const Fact fact = cpu_fact(four_cpus());
  EXPECT_EQ(fact.verdict, Verdict::ok);
  EXPECT_TRUE(contains(fact.text, "4 hardware thread(s) on 2 core(s), AVX2")) << fact.text;
}

TEST(CpuFact, WarnsOfScalarCode) {
  Cpu cpu = four_cpus();
  cpu.targets = {"SCALAR"};
  expect_advice(cpu_fact(cpu), Verdict::warn);
}

TEST(CpuFact, WarnsOfAQuotaBelowTheCpus) {
  Cpu cpu = four_cpus();
  cpu.quota = 1.5;
  expect_advice(cpu_fact(cpu), Verdict::warn);
  EXPECT_TRUE(contains(cpu_fact(cpu).next, "--threads 1"));
  cpu.quota = 4.0;
  EXPECT_EQ(cpu_fact(cpu).verdict, Verdict::ok);
}

TEST(NumaFact, WarnsOfANodeWithoutCpus) {
  Topology topology = four_cpus().topology;
  EXPECT_EQ(numa_fact(topology).verdict, Verdict::ok);
  topology.nodes.push_back({.index = 1, .memory_bytes = kGiB});
  expect_advice(numa_fact(topology), Verdict::warn);
}

TEST(MemoryFact, IsJudgedByWhatIsAvailable) {
  EXPECT_EQ(memory_fact({8 * kGiB, 4 * kGiB, {}}).verdict, Verdict::ok);
  expect_advice(memory_fact({8 * kGiB, kGiB, {}}), Verdict::warn);
  expect_advice(memory_fact({8 * kGiB, 64 * kMiB, {}}), Verdict::fail);
}

TEST(MemoryFact, NamesTheFileOfTheLimit) {
  const Fact fact =
      memory_fact({8 * kGiB, 4 * kGiB, MemoryLimit{5 * kGiB, 4 * kGiB, "/x/memory.max"}});
  EXPECT_TRUE(contains(fact.text, "/x/memory.max")) << fact.text;
}

TEST(MemlockFact, WarnsOnlyWhereTheLimitApplies) {
  EXPECT_EQ(memlock_fact(std::nullopt, false).verdict, Verdict::ok);
  EXPECT_EQ(memlock_fact(8 * kMiB, true).verdict, Verdict::ok);
  EXPECT_EQ(memlock_fact(64 * kGiB, false).verdict, Verdict::ok);
  expect_advice(memlock_fact(8 * kMiB, false), Verdict::warn);
}

TEST(HugePageFact, IsWellOnlyWhenGranted) {
  EXPECT_EQ(huge_page_fact("always [madvise] never", true).verdict, Verdict::ok);
  expect_advice(huge_page_fact("always madvise [never]", false), Verdict::warn);
  EXPECT_TRUE(contains(huge_page_fact("always madvise [never]", false).next, "echo madvise"));
  EXPECT_FALSE(contains(huge_page_fact("always [madvise] never", false).next, "echo madvise"));
}

TEST(UringFact, SaysWhyItIsRefused) {
  EXPECT_EQ(uring_fact({.engine = "io_uring, 256 entries"}).verdict, Verdict::ok);
  const Status refused(Code::unavailable, "io_uring_setup: Operation not permitted");
  const Fact by_setting = uring_fact({.opened = refused, .disabled = 2});
  const Fact by_profile = uring_fact({.opened = refused, .filtered = true});
  expect_advice(by_setting, Verdict::warn);
  expect_advice(by_profile, Verdict::warn);
  EXPECT_TRUE(contains(by_setting.next, "kernel.io_uring_disabled=0"));
  EXPECT_TRUE(contains(by_profile.next, "seccomp"));
  EXPECT_TRUE(contains(by_profile.text, "Operation not permitted"));
}

TEST(FolderFact, IsJudgedByItsFileSystem) {
  const Folder disk{.path = "/data", .file_system = "ext4", .direct = true, .alignment = 4096};
  EXPECT_EQ(folder_fact(disk).verdict, Verdict::ok);
  EXPECT_EQ(direct_fact(disk).verdict, Verdict::ok);
  expect_advice(folder_fact({.path = "/dev/shm", .file_system = "tmpfs"}), Verdict::warn);
  expect_advice(folder_fact({.path = "/net", .file_system = "nfs4"}), Verdict::warn);
  expect_advice(direct_fact({.path = "/dev/shm", .file_system = "tmpfs"}), Verdict::warn);
  expect_advice(folder_fact({.path = "/none", .opened = Status(Code::io, "no such folder")}),
                Verdict::fail);
}

TEST(SpaceFact, IsJudgedByWhatIsFree) {
  EXPECT_EQ(space_fact({.free_bytes = 100 * kGiB}).verdict, Verdict::ok);
  expect_advice(space_fact({.free_bytes = kGiB}), Verdict::warn);
  expect_advice(space_fact({.free_bytes = kMiB}), Verdict::fail);
}

// A /sys of the test's own, with one drive of one partition.
class Sys : public ::testing::Test {
 protected:
  Sys() {
    std::string name = (fs::temp_directory_path() / "headrace_sys_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directories(root_ / "dev/block");
  }
  ~Sys() override { fs::remove_all(root_); }

  void add_drive(const std::string& drive, bool rotating) {
    fs::create_directories(root_ / "devices" / drive / "queue");
    fs::create_directories(root_ / "devices" / drive / "part1");
    std::ofstream(root_ / "devices" / drive / "queue/rotational") << rotating << "\n";
    std::ofstream(root_ / "devices" / drive / "part1/partition") << "1\n";
    fs::create_symlink(root_ / "devices" / drive / "part1", root_ / "dev/block/8:1");
  }

  fs::path root_;
};

TEST_F(Sys, APartitionIsItsDrive) {
  add_drive("nvme0n1", false);
  const Drive drive = drive_of(8, 1, root_);
  EXPECT_EQ(drive.name, "nvme0n1");
  EXPECT_TRUE(drive.nvme);
  EXPECT_EQ(drive_fact(drive).verdict, Verdict::ok);
}

TEST_F(Sys, ARotatingDriveIsAWarning) {
  add_drive("sda", true);
  EXPECT_TRUE(drive_of(8, 1, root_).rotating);
  expect_advice(drive_fact(drive_of(8, 1, root_)), Verdict::warn);
}

TEST_F(Sys, AVirtualDiskThatSaysItRotatesIsNot) {
  add_drive("vda", true);
  EXPECT_EQ(drive_fact(drive_of(8, 1, root_)).verdict, Verdict::ok);
}

TEST_F(Sys, ANumberWithoutADeviceHasNoName) { EXPECT_TRUE(drive_of(0, 42, root_).name.empty()); }

TEST(Facts, TheWorstCountsAndAdviceIsShown) {
  const std::vector<Fact> facts = {
      {.name = "a", .text = "fine"},
      {.verdict = Verdict::warn, .name = "b", .text = "hm", .next = "do it"}};
  EXPECT_EQ(worst(facts), Verdict::warn);
  EXPECT_EQ(worst({}), Verdict::ok);
  EXPECT_TRUE(contains(text_of(facts), "[ok]   a"));
  EXPECT_TRUE(contains(text_of(facts), "[warn] b"));
  EXPECT_TRUE(contains(text_of(facts), "-> do it"));
}

TEST(Facts, JsonCarriesTheValues) {
  const std::vector<Fact> facts = {{.verdict = Verdict::fail,
                                    .name = "space",
                                    .text = "\"3 B\" \xff",
                                    .values = {{"free_bytes", std::uint64_t{3}}}}};
  const std::string json = json_of(facts);
  EXPECT_TRUE(contains(json, "\"schema\": \"headrace.doctor/1\"")) << json;
  EXPECT_TRUE(contains(json, "\"verdict\": \"fail\"")) << json;
  EXPECT_TRUE(contains(json, "\"free_bytes\": 3")) << json;
}

}  // namespace
}  // namespace headrace::cli
