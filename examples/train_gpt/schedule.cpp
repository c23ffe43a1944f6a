#include "examples/train_gpt/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace train_gpt {

double learning_rate(const Schedule& schedule, std::uint64_t step) {
  constexpr std::uint64_t kLongestWarmUp = 100;
  constexpr double kFloor = 0.1;
  const std::uint64_t warm_up = std::clamp<std::uint64_t>(schedule.steps / 10, 1, kLongestWarmUp);
  if (step <= warm_up) {
    return schedule.peak * static_cast<double>(step) / static_cast<double>(warm_up);
  }
  const double left = static_cast<double>(std::max(schedule.steps, warm_up + 1) - warm_up);
  const double done = std::min(1.0, static_cast<double>(step - warm_up) / left);
  const double wave = 0.5 * (1 + std::cos(std::numbers::pi * done));
  return schedule.peak * (kFloor + (1 - kFloor) * wave);
}

}  // namespace train_gpt
