// The model, the gradients and the program of the exactness tests: at most 64 Ki parameters but for
// one tensor of 200,000; bf16, fp16 and fp32 parameters; a frozen, an empty and a tied tensor; 20
// applied steps and one skipped for overflow, clipping, 4 accumulated micro-batches, one tensor
// that gets its first gradient late, a random subset of tensors without gradient in each step.
//
// Gradients are windows of three pools of random values, so that a run costs no generation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/engine.h"

namespace headrace::exact {

constexpr int kSteps = 21;
constexpr int kOverflowStep = 8;
constexpr int kMicroBatches = 4;
constexpr std::uint64_t kSeed = 20261130;

struct Described {
  const char* name;
  std::uint32_t unit, group;
  std::uint64_t count;
  ScalarType param;
  ScalarType grad;    // the type kept; 16 bits: one gradient a step
  ScalarType source;  // the type given
  bool trainable = true;
  int first_step = 0;  // gets no gradient before
  int alias_of = -1;
};

std::span<const Described> tensors();

// One gradient of the program.
struct Put {
  std::uint32_t tensor;
  std::span<const std::byte> bytes;
  ScalarType type;
};
// What is put in a step, in order; micro-batch by micro-batch.
std::vector<Put> puts(int step);

std::array<AdamW, 2> groups(int step);
constexpr double kMaxNorm = 20.0;
constexpr double kGradScale = 8.0;
std::vector<float> initial(std::uint32_t tensor);

// Adds the tensors, seals, writes the initial weights.
Status build(Engine& engine);
// Runs steps [from, to).
Status train(Engine& engine, int from = 0, int to = kSteps);
// One hash over master, exp_avg, exp_avg_sq and parameter of every tensor.
Result<std::uint64_t> hash(Engine& engine);

}  // namespace headrace::exact
