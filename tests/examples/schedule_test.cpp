#include "examples/train_gpt/schedule.h"

#include <gtest/gtest.h>

namespace train_gpt {
namespace {

TEST(ScheduleTest, TheRateRisesInAStraightLine) {
  const Schedule schedule{.peak = 1, .steps = 200};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.05);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 20), 1);
}

TEST(ScheduleTest, TheRateFallsAlongACosineToATenth) {
  const Schedule schedule{.peak = 2, .steps = 200};
  EXPECT_NEAR(learning_rate(schedule, 110), 1.1, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 200), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(schedule, 500), 0.2, 1e-12);
  for (std::uint64_t step = 21; step <= 200; ++step) {
    EXPECT_LT(learning_rate(schedule, step), learning_rate(schedule, step - 1));
  }
}

TEST(ScheduleTest, WarmUpIsAHundredStepsAtMost) {
  const Schedule schedule{.peak = 1, .steps = 100'000};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 100), 1);
  EXPECT_LT(learning_rate(schedule, 101), 1);
}

TEST(ScheduleTest, AFewStepsAreEnough) {
  EXPECT_DOUBLE_EQ(learning_rate({.peak = 1, .steps = 1}, 1), 1);
  EXPECT_NEAR(learning_rate({.peak = 1, .steps = 2}, 2), 0.1, 1e-12);
}

}  // namespace
}  // namespace train_gpt
