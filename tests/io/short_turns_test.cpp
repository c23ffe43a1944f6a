#include "io/short_turns.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

namespace headrace {
namespace {

// How long its turns are is told by recent kernels alone.
TEST(ShortTurns, ChangeNothingElse) {
  std::thread([] {
    const int nice = getpriority(PRIO_PROCESS, 0);
    take_short_turns();
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice);
    std::array<std::uint64_t, 7> attributes{};  // sched_attr; its slice is the fourth
    ASSERT_EQ(::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0), 0);
    const bool knows_slices = attributes[3] != 0;
    if (knows_slices) {
      EXPECT_EQ(attributes[3], 100'000u);
    }
  }).join();
}

TEST(ShortTurns, AThreadOfAnotherPolicyStaysAsItIs) {
  std::thread([] {
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    take_short_turns();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
  }).join();
}

}  // namespace
}  // namespace headrace
