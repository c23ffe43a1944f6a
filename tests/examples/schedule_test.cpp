#include "examples/train_gpt/schedule.h"

#include <gtest/gtest.h>

namespace train_gpt {
namespace {

TEST(ScheduleTest, TheRateRisesInAStraightLine) {
  EXPECT_DOUBLE_EQ(learning_rate(1, 1), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(1, 5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(1, kWarmUpSteps), 1);
}

TEST(ScheduleTest, TheRateFallsAlongACosineToATenth) {
  EXPECT_NEAR(learning_rate(2, (kWarmUpSteps + kCosineSteps) / 2), 1.1, 1e-12);
  EXPECT_NEAR(learning_rate(2, kCosineSteps), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(2, 100 * kCosineSteps), 0.2, 1e-12);
  for (std::uint64_t step = kWarmUpSteps + 1; step <= kCosineSteps; ++step) {
    EXPECT_LT(learning_rate(2, step), learning_rate(2, step - 1));
  }
}

}  // namespace
}  // namespace train_gpt
