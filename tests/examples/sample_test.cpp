#include "examples/train_gpt/sample.h"

#include <string_view>

#include <gtest/gtest.h>

#include "tests/examples/model_in_memory.h"

namespace train_gpt {
namespace {

using testing::ModelInMemory;

constexpr std::uint64_t kSeed = 12;
constexpr ModelShape kShape{.layers = 1, .width = 16, .context = 6, .batch = 1, .head_width = 8};

std::span<const std::uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::vector<std::uint8_t> sampled(std::string_view prompt, const SampleOptions& options) {
  ModelInMemory net(kShape, kSeed);
  const auto forward = [&](Model& model) {
    EXPECT_EQ(&model, &net.model);
    for (std::size_t unit = 0; unit < kShape.units(); ++unit) net.forward(unit);
    return headrace::Status();
  };
  const auto text = sample(net.model, bytes(prompt), options, forward);
  EXPECT_TRUE(text.ok());
  return *text;
}

TEST(SampleTest, TheTextGoesOnPastTheContext) {
  EXPECT_EQ(sampled("a", {.seed = 1, .count = 40}).size(), 40U);
  EXPECT_EQ(sampled("a prompt longer than the context", {.seed = 1, .count = 9}).size(), 9U);
}

TEST(SampleTest, TheSameSeedGivesTheSameText) {
  EXPECT_EQ(sampled("a", {.seed = 1, .count = 20}), sampled("a", {.seed = 1, .count = 20}));
  EXPECT_NE(sampled("a", {.seed = 1, .count = 20}), sampled("a", {.seed = 2, .count = 20}));
}

TEST(SampleTest, AFailedForwardEndsIt) {
  Model model(kShape);
  const auto text = sample(model, bytes("a"), {}, [](Model&) {
    return headrace::Status(headrace::Code::poisoned, "gone");
  });
  EXPECT_EQ(text.status().code(), headrace::Code::poisoned);
}

TEST(SampleTest, PickFollowsTheProbabilities) {
  std::vector<float> logits(kVocabulary, -1000.0F);
  logits[10] = 0;
  logits[200] = std::log(3.0F);
  EXPECT_EQ(pick(logits, 1, 0.0), 10);
  EXPECT_EQ(pick(logits, 1, 0.24), 10);
  EXPECT_EQ(pick(logits, 1, 0.26), 200);
  EXPECT_EQ(pick(logits, 1, 0.999999999999), 200);
  EXPECT_EQ(pick(logits, 0.1F, 0.01), 200);  // colder: the likelier one wins nearly always
}

}  // namespace
}  // namespace train_gpt
