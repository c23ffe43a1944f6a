#include "examples/train_gpt/parameters.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace train_gpt {
namespace {

TEST(ParametersTest, TheDefaultModelHasTwentyOneMillion) {
  const auto list = parameters({});
  EXPECT_EQ(parameter_count(list), 21'441'792U);
}

TEST(ParametersTest, UnitsComeInForwardOrderAndNamesAreUnique) {
  const ModelShape shape{.layers = 3, .width = 64};
  std::set<std::string> names;
  std::size_t unit = 0;
  for (const Parameter& parameter : parameters(shape)) {
    EXPECT_GE(parameter.unit, unit);
    unit = parameter.unit;
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
  }
  EXPECT_EQ(unit, shape.units() - 1);
}

TEST(ParametersTest, MatricesDecayAndVectorsDoNot) {
  for (const Parameter& parameter : parameters({})) {
    EXPECT_EQ(parameter.group == Group::decay, parameter.shape.size() == 2) << parameter.name;
  }
}

TEST(ParametersTest, TheHeadSharesTheTokenEmbedding) {
  const auto list = parameters({.layers = 1, .width = 64});
  ASSERT_TRUE(list.back().alias_of);
  EXPECT_EQ(list[*list.back().alias_of].name, "embedding.token");
  EXPECT_EQ(list[*list.back().alias_of].shape, list.back().shape);
}

TEST(ParametersTest, StartingValuesFollowSeedAndIndexAlone) {
  std::vector<float> a(1000), b(1000), other(1000);
  initialise(a, {0, 0.02F}, 5, 3);
  initialise(b, {0, 0.02F}, 5, 3);
  initialise(other, {0, 0.02F}, 5, 4);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other);
  initialise(std::span(b).first(10), {0, 0.02F}, 6, 3);
  EXPECT_NE(a, b);
}

TEST(ParametersTest, StartingValuesAreNormalWithTheGivenDeviation) {
  std::vector<float> values(100'000);
  initialise(values, {1, 0.5F}, 9, 0);
  double sum = 0, squares = 0, within = 0;
  for (const float value : values) {
    const double z = (static_cast<double>(value) - 1) / 0.5;
    sum += z;
    squares += z * z;
    within += std::abs(z) < 1 ? 1 : 0;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(within / n, 0.6827, 0.01);
}

}  // namespace
}  // namespace train_gpt
