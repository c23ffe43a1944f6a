#include "bench/adam_yardstick.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headrace::bench {
namespace {

constexpr std::size_t kCount = 5 * kSegmentElements;

struct alignas(64) Line {
  std::byte bytes[64];
};

// A stream of numbers around `size`, of either sign unless `positive`.
struct Stream {
  Stream(unsigned seed, float size, bool positive) : lines(kCount * sizeof(float) / sizeof(Line)) {
    for (float& value : floats()) {
      seed = seed * 1664525 + 1013904223;
      value = size * (1 + static_cast<float>(seed >> 8) / 16777216.0F);
      if (!positive && (seed & 1) != 0) value = -value;
    }
  }
  std::span<float> floats() { return {reinterpret_cast<float*>(lines.data()), kCount}; }
  std::span<std::uint16_t> halves() {
    return {reinterpret_cast<std::uint16_t*>(lines.data()), kCount};
  }
  std::vector<Line> lines;
};

struct State {
  Stream param{1, 0.1F, false};
  Stream exp_avg{2, 0.01F, false};
  Stream exp_avg_sq{3, 0.0001F, true};
  Stream grad{4, 0.01F, false};
  Stream low_param{5, 1, true};

  YardstickRun run(double factor) {
    return {param.floats(), exp_avg.floats(),   exp_avg_sq.floats(),
            grad.floats(),  low_param.halves(), adamw_scalars({.weight_decay = 0.1}, 3, factor)};
  }
};

// After the update of the library itself.
State updated(double factor) {
  State state;
  AdamWRun run;
  run.state = {reinterpret_cast<std::byte*>(state.param.floats().data()),
               state.exp_avg.floats().data(), state.exp_avg_sq.floats().data()};
  run.param = reinterpret_cast<std::byte*>(state.low_param.halves().data());
  run.grad = reinterpret_cast<const std::byte*>(state.grad.floats().data());
  run.grad_type = ScalarType::fp32;
  run.count = kCount;
  run.scalars = adamw_scalars({.weight_decay = 0.1}, 3, factor);
  adamw_update({&run, 1}, {});
  return state;
}

void expect_near(std::span<const float> found, std::span<const float> wanted) {
  for (std::size_t at = 0; at < kCount; ++at) {
    ASSERT_NEAR(found[at], wanted[at], 4e-7 * std::abs(wanted[at]) + 1e-9) << at;
  }
}

TEST(AdamYardstick, TheLoopIsTheUpdateButForRounding) {
  for (const int threads : {1, 2, 3}) {
    State state, wanted = updated(1);
    adam_loop(state.run(1), {threads});
    expect_near(state.param.floats(), wanted.param.floats());
    expect_near(state.exp_avg.floats(), wanted.exp_avg.floats());
    expect_near(state.exp_avg_sq.floats(), wanted.exp_avg_sq.floats());
  }
}

TEST(AdamYardstick, ThreePassesScaleAndCastToo) {
  for (const int threads : {1, 2, 3}) {
    State state, wanted = updated(0.5);
    Stream before = state.grad;
    adam_three_passes(state.run(0.5), {threads});
    expect_near(state.param.floats(), wanted.param.floats());
    for (std::size_t at = 0; at < kCount; ++at) {
      ASSERT_EQ(state.grad.floats()[at], before.floats()[at] / 2);
      ASSERT_EQ(state.low_param.halves()[at], bf16_of_float(state.param.floats()[at]));
    }
  }
}

}  // namespace
}  // namespace headrace::bench
