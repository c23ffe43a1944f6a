#include "examples/train_gpt/progress.h"

#include <cstdio>

#include <gtest/gtest.h>

namespace train_gpt {
namespace {

TEST(ProgressTest, ALineHoldsLossRateAndTimes) {
  EXPECT_EQ(to_line({.step = 3,
                     .last_step = 30,
                     .loss = 5.25,
                     .tokens_per_second = 512,
                     .seconds = 1,
                     .exposed_seconds = 0.125}),
            "step 3/30  loss 5.2500  512 tokens/s  step 1.000 s  exposed 0.125 s");
}

TEST(ProgressTest, NothingIsWrittenToAFile) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    ProgressLine line(::fileno(file));
    line.show({.step = 1, .last_step = 2});
  }
  std::fseek(file, 0, SEEK_END);
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace train_gpt
