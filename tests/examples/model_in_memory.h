// Test support: a model with all its weights and gradients in memory, trained by plain descent.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/train_gpt/model.h"
#include "examples/train_gpt/random.h"

namespace train_gpt::testing {

class ModelInMemory {
 public:
  ModelInMemory(const ModelShape& shape, std::uint64_t seed)
      : model(shape), list(parameters(shape)), weights(list.size()), gradients(list.size()) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      weights[i].resize(list[i].alias_of ? 0 : list[i].count());
      gradients[i].resize(list[i].count());
      initialise(weights[i], list[i].initial, seed, i);
    }
  }

  double forward(std::span<const std::uint8_t> tokens, std::span<const std::uint8_t> targets) {
    model.start(tokens);
    for (std::size_t unit = 0; unit < model.shape().units(); ++unit) forward(unit);
    return model.loss(targets);
  }
  void forward(std::size_t unit) { model.forward(unit, views(unit)); }

  // Leaves each tensor's gradient in `gradients`, an alias's added to its owner's.
  void backward(float scale) {
    produced.assign(list.size(), 0);
    for (std::size_t unit = model.shape().units(); unit-- > 0;) backward(unit, scale);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!list[i].alias_of) continue;
      auto& owner = gradients[*list[i].alias_of];
      for (std::size_t k = 0; k < owner.size(); ++k) owner[k] += gradients[i][k];
    }
  }

  void descend(float rate) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t k = 0; k < weights[i].size(); ++k) weights[i][k] -= rate * gradients[i][k];
    }
  }

  Model model;
  std::vector<Parameter> list;
  std::vector<std::vector<float>> weights, gradients;
  std::vector<int> produced;  // how often, per tensor

 private:
  std::vector<std::span<const float>> views(std::size_t unit) const {
    std::vector<std::span<const float>> found;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].unit == unit) found.emplace_back(weights[list[i].alias_of.value_or(i)]);
    }
    return found;
  }

  void backward(std::size_t unit, float scale) {
    std::vector<std::span<float>> into;
    std::vector<std::size_t> ids;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].unit != unit) continue;
      ids.push_back(i);
      std::ranges::fill(gradients[i], 1e30F);  // whatever is there must be replaced
      into.emplace_back(gradients[i]);
    }
    const auto weights_or_none = unit == 0 ? std::vector<std::span<const float>>{} : views(unit);
    model.backward(unit, weights_or_none,
                   {into, [&](std::size_t tensor) { ++produced[ids[tensor]]; }}, scale);
  }
};

// Bytes with a pattern to learn and some noise.
inline std::vector<std::uint8_t> patterned_bytes(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool noise = random_bits(seed, 7, i) % 8 == 0;
    bytes[i] = static_cast<std::uint8_t>(noise ? random_bits(seed, 8, i) % 256 : 'a' + i % 7);
  }
  return bytes;
}

}  // namespace train_gpt::testing
