// Text from the model, one byte at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "examples/train_gpt/model.h"
#include "runtime/engine.h"

namespace train_gpt {

struct SampleOptions {
  std::uint64_t seed = 1;
  std::size_t count = 240;  // bytes
  float temperature = 0.7F;
};

// Runs every unit's forward on the model for the positions it was started with.
using ForwardPass = std::function<headrace::Status(Model& model)>;

// `count` bytes that follow `prompt` (one byte or more; its end, if the context is shorter).
// `model` has batch 1. When the context is full, its last half becomes the new prompt.
headrace::Result<std::vector<std::uint8_t>> sample(Model& model,
                                                   std::span<const std::uint8_t> prompt,
                                                   const SampleOptions& options,
                                                   const ForwardPass& forward);

// The byte that `uniform` in [0, 1) falls on when logits are softened by the temperature.
std::uint8_t pick(std::span<const float> logits, float temperature, double uniform);

}  // namespace train_gpt
