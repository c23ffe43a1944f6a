#include "optim_cpu/team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

namespace headrace {
namespace {

TEST(Team, EveryThreadOfATeamRunsOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(threads));
    on_team({.threads = threads}, [&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
}

TEST(Team, ATeamInsideATeamIsWhole) {
  std::vector<std::atomic<int>> calls(12);
  on_team({.threads = 3}, [&](int outer) {
    on_team({.threads = 4},
            [&](int inner) { ++calls[static_cast<std::size_t>(4 * outer + inner)]; });
  });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST(Team, TeamsOfTwoThreadsDoNotMeet) {
  std::atomic<int> calls = 0;
  const auto many = [&] {
    for (int i = 0; i < 50; ++i) on_team({.threads = 2}, [&](int) { ++calls; });
  };
  std::thread first(many), second(many);
  first.join();
  second.join();
  EXPECT_EQ(calls, 200);
}

TEST(Team, PartsFollowEachOtherAndDifferByOneAtMost) {
  for (const std::size_t count : {0u, 1u, 2u, 7u, 64u, 1001u}) {
    for (const int threads : {1, 2, 3, 16}) {
      std::size_t next = 0;
      for (int thread = 0; thread < threads; ++thread) {
        const Part part = part_of(count, thread, threads);
        EXPECT_EQ(part.begin, next);
        EXPECT_LE(part.end - part.begin, count / static_cast<std::size_t>(threads) + 1);
        EXPECT_GE(part.end - part.begin, count / static_cast<std::size_t>(threads));
        next = part.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

// Leaves the calling thread the first of its CPUs.
void keep_one_cpu() {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(Team, ThreadsAreCountedFromTheAffinityMask) {
  EXPECT_GE(affinity_threads(), 1);
  int pinned = 0;
  std::thread([&] {
    keep_one_cpu();
    pinned = affinity_threads();
  }).join();
  EXPECT_EQ(pinned, 1);
}

TEST(Team, ScalarCodeIsAlwaysThereAndLast) {
  const std::vector<std::int64_t> targets = available_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(target_name(targets.back()), "SCALAR");
  EXPECT_EQ(std::set(targets.begin(), targets.end()).size(), targets.size());
}

TEST(Team, TargetsAreThoseOfTheMachine) {
#if defined(__x86_64__)
  std::set<std::string> names;
  for (const std::int64_t target : available_targets()) names.insert(target_name(target));
  EXPECT_EQ(names.contains("AVX2"),
            __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#else
  GTEST_SKIP() << "the list is checked on x86-64 only";
#endif
}

}  // namespace
}  // namespace headrace
