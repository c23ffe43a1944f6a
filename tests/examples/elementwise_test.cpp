#include "examples/train_gpt/elementwise.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace train_gpt {
namespace {

TEST(ElementwiseTest, GeluMatchesItsFormulaInDouble) {
  std::vector<float> x, out;
  for (float v = -12; v <= 12; v += 0.037F) x.push_back(v);
  x.insert(x.end(), {0.0F, -100.0F, 100.0F, 1e-20F});
  out.resize(x.size());
  gelu(matrix(std::span(out), 1, x.size()), matrix(std::span(x), 1, x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(out[i], 0.5 * v * (1 + std::tanh(u)), 1e-6 * std::max(1.0, std::abs(v))) << v;
  }
}

TEST(ElementwiseTest, SoftmaxKeepsTheVisiblePartAndSumsToOne) {
  std::vector<float> scores(4 * 37);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i % 11) * 3 - 15;
  const auto before = scores;
  causal_softmax(matrix(std::span(scores), 4, 37), 34);
  for (std::size_t row = 0; row < 4; ++row) {
    double sum = 0, expected_sum = 0;
    for (std::size_t i = 0; i < 34 + row; ++i) {
      sum += scores[row * 37 + i];
      expected_sum += std::exp(static_cast<double>(before[row * 37 + i]));
    }
    EXPECT_NEAR(sum, 1, 1e-6);
    const double first = std::exp(static_cast<double>(before[row * 37])) / expected_sum;
    EXPECT_NEAR(scores[row * 37], first, 1e-6 * first + 1e-9);
    for (std::size_t i = 34 + row; i < 37; ++i) EXPECT_EQ(scores[row * 37 + i], 0);
  }
}

TEST(ElementwiseTest, CrossEntropyIsTheMeanOverRows) {
  std::vector<float> logits(2 * std::size_t{256}, 0.0F);
  logits[std::size_t{256} + 3] = 50;
  const std::vector<std::uint8_t> targets{7, 3};
  const double loss = cross_entropy(matrix(std::span(logits), 2, std::size_t{256}), targets);
  EXPECT_NEAR(loss, std::log(256.0) / 2, 1e-6);
}

TEST(ElementwiseTest, ColumnSumsReplaceWhatWasThere) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  std::vector<float> sums{9, 9, 9};
  column_sums(sums, matrix(std::span(values), 2, 3));
  EXPECT_EQ(sums, (std::vector<float>{5, 7, 9}));
}

}  // namespace
}  // namespace train_gpt
