// The learning rate over a run.
#pragma once

#include <cstdint>

namespace train_gpt {

struct Schedule {
  double peak = 1e-3;
  std::uint64_t steps = 1;  // the last step's number
};

// Rises in a straight line over the first tenth of the steps (at most 100), then falls along a
// cosine to a tenth of its peak (Loshchilov and Hutter, 2017). Steps count from 1.
double learning_rate(const Schedule& schedule, std::uint64_t step);

}  // namespace train_gpt
