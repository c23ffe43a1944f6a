#include "examples/train_gpt/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace train_gpt {

double learning_rate(double peak, std::uint64_t step) {
  constexpr double kFloor = 0.1;
  if (step <= kWarmUpSteps) {
    return peak * static_cast<double>(step) / static_cast<double>(kWarmUpSteps);
  }
  const double way = static_cast<double>(kCosineSteps - kWarmUpSteps);
  const double done = std::min(1.0, static_cast<double>(step - kWarmUpSteps) / way);
  const double wave = 0.5 * (1 + std::cos(std::numbers::pi * done));
  return peak * (kFloor + (1 - kFloor) * wave);
}

}  // namespace train_gpt
