#include "examples/train_gpt/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/examples/model_in_memory.h"

namespace train_gpt {
namespace {

using testing::ModelInMemory;
using testing::patterned_bytes;

constexpr std::uint64_t kSeed = 41;
constexpr ModelShape kTiny{.layers = 2, .width = 12, .context = 5, .batch = 3, .head_width = 4};

// Weights far from their starting values, so that no gradient is near zero by design.
void shake(ModelInMemory& net) {
  for (std::size_t i = 0; i < net.list.size(); ++i) {
    const float deviation = net.list[i].group == Group::decay ? 0.3F : 0.2F;
    initialise(net.weights[i], {net.list[i].initial.mean, deviation}, kSeed, 100 + i);
  }
}

struct Text {
  explicit Text(const ModelShape& shape) : bytes(patterned_bytes(shape.rows() + 1, kSeed)) {}
  std::span<const std::uint8_t> tokens() const { return std::span(bytes).first(bytes.size() - 1); }
  std::span<const std::uint8_t> targets() const { return std::span(bytes).last(bytes.size() - 1); }
  std::vector<std::uint8_t> bytes;
};

double loss_at(ModelInMemory& net, const Text& text, float& weight, float value) {
  const float kept = std::exchange(weight, value);
  const double loss = net.forward(text.tokens(), text.targets());
  weight = kept;
  return loss;
}

// Two central differences, combined so that the error is of fourth order in the width.
double difference(ModelInMemory& net, const Text& text, float& weight) {
  const auto central = [&](float width) {
    const float up = weight + width, down = weight - width;
    return (loss_at(net, text, weight, up) - loss_at(net, text, weight, down)) /
           (static_cast<double>(up) - static_cast<double>(down));
  };
  const float width = 0.02F;
  return (4 * central(width) - central(2 * width)) / 3;
}

// Every element of a small tensor, a spread of a large one's.
std::size_t stride(std::size_t count) { return std::max<std::size_t>(1, count / 16) | 1U; }

void expect_right_gradients(const ModelShape& shape) {
  ModelInMemory net(shape, kSeed);
  shake(net);
  const Text text(shape);
  net.forward(text.tokens(), text.targets());
  net.backward(1);
  const auto gradients = net.gradients;
  for (std::size_t i = 0; i < net.list.size(); ++i) {
    if (net.list[i].alias_of) continue;
    double error = 0, size = 0;
    for (std::size_t k = 0; k < net.weights[i].size(); k += stride(net.weights[i].size())) {
      const double expected = difference(net, text, net.weights[i][k]);
      const double found = gradients[i][k];
      error += (found - expected) * (found - expected);
      size += expected * expected;
    }
    ASSERT_GT(size, 0) << net.list[i].name;
    EXPECT_LT(std::sqrt(error / size), 2e-3) << net.list[i].name << ", seed " << kSeed;
  }
}

TEST(ModelTest, EveryTensorsGradientMatchesFiniteDifferences) { expect_right_gradients(kTiny); }

// Attention goes block by block; here there are three, and the last one is short.
constexpr ModelShape kLong{.layers = 1, .width = 8, .context = 75, .batch = 2, .head_width = 4};

TEST(ModelTest, GradientsAreRightAcrossAttentionBlocks) { expect_right_gradients(kLong); }

TEST(ModelTest, EachGradientIsProducedOnceAndScales) {
  ModelInMemory net(kTiny, kSeed);
  shake(net);
  const Text text(kTiny);
  net.forward(text.tokens(), text.targets());
  net.backward(1);
  const auto whole = net.gradients;
  net.forward(text.tokens(), text.targets());
  net.backward(0.25F);
  for (std::size_t i = 0; i < net.list.size(); ++i) {
    EXPECT_EQ(net.produced[i], 1) << net.list[i].name;
    for (std::size_t k = 0; k < whole[i].size(); ++k) {
      ASSERT_EQ(net.gradients[i][k], whole[i][k] / 4) << net.list[i].name << " " << k;
    }
  }
}

TEST(ModelTest, APositionSeesNothingThatComesLater) {
  ModelInMemory net(kTiny, kSeed);
  shake(net);
  Text text(kTiny);
  net.forward(text.tokens(), text.targets());
  text.bytes[4] ^= 1U;  // the last position of the first sequence
  const auto logits_of = [&] {
    net.model.start(text.tokens());
    for (std::size_t unit = 0; unit < kTiny.units(); ++unit) net.forward(unit);
    const auto all = net.model.logits().values;
    return std::vector<float>(all.begin(), all.end());
  };
  const auto changed = logits_of();
  text.bytes[4] ^= 1U;
  const auto first = logits_of();
  const std::size_t untouched = 4 * kVocabulary;
  EXPECT_EQ(std::memcmp(first.data(), changed.data(), untouched * sizeof(float)), 0);
  EXPECT_NE(std::memcmp(&first[untouched], &changed[untouched], kVocabulary * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(&first[5 * kVocabulary], &changed[5 * kVocabulary],
                        (first.size() - 5 * kVocabulary) * sizeof(float)),
            0);
}

TEST(ModelTest, OnePositionAtATimeGivesTheLogitsOfTheWholeText) {
  ModelShape shape = kLong;
  shape.batch = 1;
  ModelInMemory net(shape, kSeed);
  shake(net);
  const Text text(shape);
  net.model.start(text.tokens());
  for (std::size_t unit = 0; unit < shape.units(); ++unit) net.forward(unit);
  const auto all = net.model.logits().values;
  const std::vector<float> whole(all.begin(), all.end());
  ModelInMemory grown(shape, kSeed);
  shake(grown);
  for (std::size_t at = 2; at <= shape.context; ++at) {
    const Positions step{at == 2 ? 0 : at - 1, at};
    grown.model.start(text.tokens().first(step.end), step);
    for (std::size_t unit = 0; unit < shape.units(); ++unit) grown.forward(unit);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_NEAR(grown.model.logits().values[i], whole[i], 1e-4F) << i;
  }
}

TEST(ModelTest, TheSameSeedGivesTheSameBits) {
  set_blas_threads(2);
  const ModelShape shape{.layers = 2, .width = 64, .context = 32, .batch = 2, .head_width = 32};
  const Text text(shape);
  std::vector<std::vector<float>> first;
  for (int repeat = 0; repeat < 3; ++repeat) {
    ModelInMemory net(shape, kSeed);
    for (int step = 0; step < 3; ++step) {
      net.forward(text.tokens(), text.targets());
      net.backward(1);
      net.descend(0.1F);
    }
    if (repeat == 0) first = net.weights;
    EXPECT_TRUE(first == net.weights) << "seed " << kSeed;
  }
}

TEST(ModelTest, ThirtyStepsOfDescentLearnAPattern) {
  const ModelShape shape{.layers = 2, .width = 32, .context = 24, .batch = 2, .head_width = 16};
  ModelInMemory net(shape, kSeed);
  const Text text(shape);
  const double before = net.forward(text.tokens(), text.targets());
  EXPECT_NEAR(before, std::log(256.0), 0.3);
  for (int step = 0; step < 30; ++step) {
    net.forward(text.tokens(), text.targets());
    net.backward(1);
    net.descend(0.5F);
  }
  EXPECT_LT(net.forward(text.tokens(), text.targets()), before / 2) << "seed " << kSeed;
}

}  // namespace
}  // namespace train_gpt
