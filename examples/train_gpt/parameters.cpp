#include "examples/train_gpt/parameters.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "examples/train_gpt/random.h"

namespace train_gpt {
namespace {

constexpr float kDeviation = 0.02F;

using List = std::vector<Parameter>;

void add_matrix(List& list, std::size_t unit, std::string name, std::vector<std::size_t> shape,
                float deviation) {
  list.push_back({std::move(name), unit, Group::decay, std::move(shape), {0, deviation}, {}});
}

void add_vector(List& list, std::size_t unit, std::string name, std::size_t count, float value) {
  list.push_back({std::move(name), unit, Group::no_decay, {count}, {value, 0}, {}});
}

void add_norm(List& list, std::size_t unit, const std::string& name, std::size_t width) {
  add_vector(list, unit, name + ".weight", width, 1);
  add_vector(list, unit, name + ".bias", width, 0);
}

void add_layer(List& list, const ModelShape& shape, std::size_t layer) {
  const std::size_t unit = layer + 1, width = shape.width;
  const std::string prefix = fmt::format("layer.{}.", layer);
  // Both matrices that write to the residual stream start smaller, so that its variance does not
  // grow with depth (Radford et al., 2019).
  const float residual = kDeviation / std::sqrt(2.0F * static_cast<float>(shape.layers));
  const auto linear = [&](const char* name, std::size_t out, std::size_t in, float deviation) {
    add_matrix(list, unit, prefix + name + ".weight", {out, in}, deviation);
    add_vector(list, unit, prefix + name + ".bias", out, 0);
  };
  add_norm(list, unit, prefix + "norm1", width);
  linear("qkv", 3 * width, width, kDeviation);
  linear("mix", width, width, residual);
  add_norm(list, unit, prefix + "norm2", width);
  linear("up", 4 * width, width, kDeviation);
  linear("down", width, 4 * width, residual);
}

}  // namespace

std::size_t Parameter::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::vector<Parameter> parameters(const ModelShape& shape) {
  List list;
  add_matrix(list, 0, "embedding.token", {kVocabulary, shape.width}, kDeviation);
  add_matrix(list, 0, "embedding.position", {shape.context, shape.width}, kDeviation);
  for (std::size_t layer = 0; layer < shape.layers; ++layer) add_layer(list, shape, layer);
  const std::size_t last = shape.units() - 1;
  add_norm(list, last, "final_norm", shape.width);
  add_matrix(list, last, "head", {kVocabulary, shape.width}, 0);
  list.back().alias_of = 0;
  return list;
}

std::size_t parameter_count(std::span<const Parameter> parameters) {
  std::size_t total = 0;
  for (const Parameter& parameter : parameters) {
    if (!parameter.alias_of) total += parameter.count();
  }
  return total;
}

void initialise(std::span<float> values, Initial initial, std::uint64_t seed, std::size_t index) {
  std::ranges::fill(values, initial.mean);
  if (initial.deviation == 0) return;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    // Box and Muller (1958), both of a pair; 1 - u keeps the logarithm's argument above zero.
    const double u = unit_interval(random_bits(seed, index, i));
    const double angle = unit_interval(random_bits(seed, index, i + 1)) * 2 * std::numbers::pi;
    const double radius = std::sqrt(-2 * std::log(1 - u));
    values[i] += initial.deviation * static_cast<float>(radius * std::cos(angle));
    if (i + 1 == values.size()) break;
    values[i + 1] += initial.deviation * static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace train_gpt
