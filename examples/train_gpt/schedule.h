// The learning rate over a run.
//
// A function of the step alone, not of how many there will be: a run that stops and is resumed with
// a higher --steps goes through the same rates, and so the same bits, as one that never stopped.
#pragma once

#include <cstdint>

namespace train_gpt {

inline constexpr std::uint64_t kWarmUpSteps = 10;
inline constexpr std::uint64_t kCosineSteps = 2000;  // where the floor is reached

// Rises in a straight line to `peak` at step kWarmUpSteps, then falls along a cosine to a tenth of
// it at step kCosineSteps (Loshchilov and Hutter, 2017), and stays there. Steps count from 1.
double learning_rate(double peak, std::uint64_t step);

}  // namespace train_gpt
