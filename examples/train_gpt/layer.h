// One transformer layer: x + attention(norm(x)), then x + mlp(norm(x)).
//
// Weights and gradients come as one span per tensor, in the order of LayerTensor. Activations stay
// with the layer between its forward and its backward pass; scratch is shared by all layers.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "examples/train_gpt/attention.h"
#include "examples/train_gpt/elementwise.h"
#include "examples/train_gpt/parameters.h"

namespace train_gpt {

// A unit's weights in fp32, one span per tensor; valid during the call they are handed to.
using Weights = std::span<const std::span<const float>>;

// Where a unit's gradients go: one buffer per tensor, replaced, not added to. `produced` is called
// once per tensor, at the moment its buffer is complete; nothing touches that buffer afterwards.
struct Gradients {
  std::span<const std::span<float>> into;
  std::function<void(std::size_t tensor)> produced;
};

AttentionShape attention_shape(const ModelShape& shape);

// What a pass needs besides the layer's own activations.
struct LayerScratch {
  explicit LayerScratch(const ModelShape& shape);
  std::size_t bytes() const;

  std::vector<float> normed, activated, wide, qkv, square;
};

class Layer {
 public:
  explicit Layer(const ModelShape& shape);

  // Turns rows of x, the residual stream, into the layer's output.
  void forward(Matrix x, Weights weights, LayerScratch& scratch, Positions positions);
  // Turns d, the gradient of the layer's output, into that of its input.
  void backward(Matrix d, Weights weights, LayerScratch& scratch, const Gradients& gradients);
  std::size_t bytes() const;

 private:
  struct Norm {
    std::vector<float> mean, inverse_deviation;
    NormStatistics rows(std::size_t first, std::size_t count);
  };

  void backward_mlp(Matrix d, Weights weights, LayerScratch& scratch, const Gradients& gradients);
  void backward_attention(Matrix d, Weights weights, LayerScratch& scratch,
                          const Gradients& gradients);

  // Constant after construction.
  ModelShape shape_;
  // Written by forward, read by backward.
  std::vector<float> input_, qkv_, probabilities_, attended_, middle_, up_;
  Norm norm1_, norm2_;
};

}  // namespace train_gpt
