#include "io/limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

// A cgroup tree and a /proc of the test's own.
class Limits : public ::testing::Test {
 protected:
  Limits() {
    roots_ = {.cgroup = root_ / "cgroup", .proc = root_ / "proc"};
    write("proc/meminfo", "MemTotal:  4000 kB\nMemFree:  1 kB\nMemAvailable:   3000 kB\n");
  }

  void write(const std::string& name, const std::string& text) { temporary_.write(name, text); }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
  SystemRoots roots_;
};

TEST_F(Limits, WithoutACgroupTheMachineIsTheLimit) {
  EXPECT_FALSE(cgroup_memory(roots_));
  EXPECT_FALSE(cgroup_cpus(roots_));
  EXPECT_EQ(total_memory_bytes(roots_), 4000u * 1024);
  EXPECT_EQ(available_memory_bytes(roots_), 3000u * 1024);
}

TEST_F(Limits, TheTightestOfAllLevelsCounts) {
  write("proc/self/cgroup", "0::/slice/unit\n");
  write("cgroup/slice/unit/memory.max", "max\n");
  write("cgroup/slice/unit/memory.current", "500000\n");
  write("cgroup/slice/memory.max", "2000000\n");
  write("cgroup/slice/memory.current", "1600000\n");
  write("cgroup/memory.max", "1000000\n");
  write("cgroup/memory.current", "100000\n");
  const auto limit = cgroup_memory(roots_);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->limit_bytes, 2'000'000u);
  EXPECT_EQ(limit->left_bytes, 400'000u);
  EXPECT_EQ(limit->set_by, (root_ / "cgroup/slice/memory.max").string());
  EXPECT_EQ(available_memory_bytes(roots_), 400'000u);
}

TEST_F(Limits, TheMachineCanBeTighterThanTheCgroup) {
  write("proc/self/cgroup", "0::/unit\n");
  write("cgroup/unit/memory.max", "900000000000\n");
  EXPECT_EQ(available_memory_bytes(roots_), 3000u * 1024);
}

TEST_F(Limits, PageCacheThatCanBeDroppedIsNotUsed) {
  write("proc/self/cgroup", "0::/unit\n");
  write("cgroup/unit/memory.max", "1000\n");
  write("cgroup/unit/memory.current", "900\n");
  write("cgroup/unit/memory.stat", "anon 100\nfile 800\ninactive_file 700\nactive_file 100\n");
  EXPECT_EQ(cgroup_memory(roots_)->left_bytes, 800u);
}

TEST_F(Limits, MoreUsedThanAllowedLeavesNothing) {
  write("proc/self/cgroup", "0::/unit\n");
  write("cgroup/unit/memory.max", "1000\n");
  write("cgroup/unit/memory.current", "1200\n");
  EXPECT_EQ(cgroup_memory(roots_)->left_bytes, 0u);
}

TEST_F(Limits, HighIsALimitToo) {
  write("proc/self/cgroup", "0::/unit\n");
  write("cgroup/unit/memory.max", "1000\n");
  write("cgroup/unit/memory.high", "600\n");
  EXPECT_EQ(cgroup_memory(roots_)->limit_bytes, 600u);
}

// A container sees the host's path, and its own cgroup as the mount's root.
TEST_F(Limits, APathThatIsNotHereFallsBackToTheRoot) {
  write("proc/self/cgroup", "0::/docker/0123456789ab\n");
  write("cgroup/memory.max", "5000\n");
  write("cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_memory(roots_)->limit_bytes, 5000u);
  EXPECT_DOUBLE_EQ(cgroup_cpus(roots_).value(), 1.5);
}

TEST_F(Limits, VersionOneIsReadFromItsControllers) {
  write("proc/self/cgroup",
        "12:cpuset:/\n5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n0::/\n");
  write("cgroup/memory/job/memory.limit_in_bytes", "70000\n");
  write("cgroup/memory/job/memory.usage_in_bytes", "30000\n");
  write("cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 10000\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
  write("cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const auto limit = cgroup_memory(roots_);
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->limit_bytes, 70'000u);
  EXPECT_EQ(limit->left_bytes, 50'000u);
  EXPECT_DOUBLE_EQ(cgroup_cpus(roots_).value(), 0.5);
}

TEST_F(Limits, VersionOneWithoutALimitHasNone) {
  write("proc/self/cgroup", "5:memory:/\n4:cpu:/\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cgroup_memory(roots_));
  EXPECT_FALSE(cgroup_cpus(roots_));
}

TEST_F(Limits, TheLowestCpuQuotaCounts) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/b/cpu.max", "max 100000\n");
  write("cgroup/a/cpu.max", "300000 100000\n");
  write("cgroup/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpus(roots_).value(), 3.0);
}

TEST_F(Limits, NonsenseInTheTreeIsNoLimit) {
  write("proc/self/cgroup", "nothing\n0:\n0::/unit\n");
  write("cgroup/unit/memory.max", "much\n");
  write("cgroup/unit/cpu.max", "100000 0\n");
  EXPECT_FALSE(cgroup_memory(roots_));
  EXPECT_FALSE(cgroup_cpus(roots_));
}

TEST(MemoryOfThisMachine, IsThere) {
  EXPECT_GT(total_memory_bytes(), 0u);
  EXPECT_GT(available_memory_bytes(), 0u);
  EXPECT_LE(available_memory_bytes(), total_memory_bytes());
}

TEST(Memlock, IsTheSoftLimit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = 65536;
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &lowered), 0);
  EXPECT_EQ(memlock_limit_bytes(), 65536u);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

}  // namespace
}  // namespace headrace
