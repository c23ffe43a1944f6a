#include "examples/train_gpt/record.h"

#include <gtest/gtest.h>

namespace train_gpt {
namespace {

RunRecord record() {
  Options options;
  options.seed = 7;
  return record_of(options, 0xFFFFFFFFFFFFFFFF, 30);
}

TEST(RecordTest, ComesBackAsItWas) {
  const auto back = from_text(to_text(record()));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->step, 30U);
  EXPECT_EQ(back->seed, 7U);
  EXPECT_EQ(back->text, 0xFFFFFFFFFFFFFFFF);
  EXPECT_TRUE(same_run(*back, record()).ok());
}

TEST(RecordTest, AnythingElseIsCorrupt) {
  const std::string good = to_text(record());
  EXPECT_FALSE(from_text("").ok());
  EXPECT_FALSE(from_text(good + "more 1\n").ok());
  EXPECT_FALSE(from_text(good.substr(1)).ok());
  EXPECT_FALSE(from_text(good.substr(0, good.size() - 1)).ok());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = '\x01';
    EXPECT_EQ(from_text(bad).status().code(), headrace::Code::corrupt) << i;
  }
}

TEST(RecordTest, AnotherRunIsRefusedByTheNameOfItsOption) {
  const auto refusal = [](std::uint64_t RunRecord::*field) {
    RunRecord now = record();
    now.*field += 1;
    return same_run(record(), now).to_string();
  };
  EXPECT_NE(refusal(&RunRecord::seed).find("give --seed 7"), std::string::npos);
  EXPECT_NE(refusal(&RunRecord::accumulate).find("--accumulate 1"), std::string::npos);
  EXPECT_NE(refusal(&RunRecord::layers).find("--layers 12"), std::string::npos);
  EXPECT_NE(refusal(&RunRecord::text).find("--data"), std::string::npos);
  EXPECT_EQ(refusal(&RunRecord::step), "ok");
}

}  // namespace
}  // namespace train_gpt
