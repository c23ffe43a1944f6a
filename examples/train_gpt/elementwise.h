// Everything between two matrix products: layer norm, GELU, softmax, biases and the loss.
//
// Plain loops that the compiler vectorises for any x86-64. Sums run in a fixed order, so the bits
// depend on the arguments alone. Rows are positions, columns are features.
#pragma once

#include <cstdint>
#include <span>

#include "examples/train_gpt/matrix.h"

namespace train_gpt {

// Of one row each, as the forward pass found them.
struct NormStatistics {
  std::span<float> mean, inverse_deviation;
};

// out = (x - mean) / sqrt(variance + 1e-5) * weight + bias, row by row.
void layer_norm(Matrix out, ConstMatrix x, std::span<const float> weight,
                std::span<const float> bias, NormStatistics statistics);
struct NormGradients {
  Matrix input;                   // added to
  std::span<float> weight, bias;  // replaced
};
void layer_norm_backward(NormGradients gradients, ConstMatrix d_out, ConstMatrix x,
                         std::span<const float> weight, NormStatistics statistics);

// x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form of Hendrycks and Gimpel
// (2016).
void gelu(Matrix out, ConstMatrix x);
// d holds the gradient of gelu(x) and then that of x.
void gelu_backward(Matrix d, ConstMatrix x);

void add_bias(Matrix m, std::span<const float> bias);
void add(Matrix m, ConstMatrix other);
// The sum over all rows, replacing what `sums` holds.
void column_sums(std::span<float> sums, ConstMatrix m);

// Row i keeps its first `visible` + i columns and becomes their softmax; the rest becomes zero.
void causal_softmax(Matrix scores, std::size_t visible);
// d holds the gradient of the probabilities and then that of the scores.
void softmax_backward(Matrix d, ConstMatrix probabilities);

// Turns logits into probabilities; the mean over rows of -log(probability of the row's target).
double cross_entropy(Matrix logits, std::span<const std::uint8_t> targets);
// Turns probabilities into the gradient of scale * cross_entropy with respect to the logits.
void cross_entropy_backward(Matrix probabilities, std::span<const std::uint8_t> targets,
                            float scale);

}  // namespace train_gpt
