#include "examples/train_gpt/layer.h"

#include <algorithm>

namespace train_gpt {
namespace {

using Tensor = LayerTensor;

constexpr std::size_t index(Tensor tensor) { return static_cast<std::size_t>(tensor); }
constexpr Tensor next(Tensor tensor) { return static_cast<Tensor>(index(tensor) + 1); }

std::span<const float> pick(Weights weights, Tensor tensor) { return weights[index(tensor)]; }

// out = x weight^T + bias, weight [out, in] with its bias behind it.
void linear(Matrix out, ConstMatrix x, Weights weights, Tensor weight) {
  multiply(out, x, transposed(matrix(pick(weights, weight), out.columns, x.columns)));
  add_bias(out, pick(weights, next(weight)));
}

// The gradients of a linear map's weight and bias; its input's is left to the caller.
void linear_gradients(const Gradients& gradients, Tensor weight, ConstMatrix d_out, ConstMatrix x) {
  const auto into = gradients.into[index(weight)];
  multiply(matrix(into, d_out.columns, x.columns), transposed(d_out), x);
  gradients.produced(index(weight));
  column_sums(gradients.into[index(next(weight))], d_out);
  gradients.produced(index(next(weight)));
}

void linear_input(Matrix d_in, ConstMatrix d_out, Weights weights, Tensor weight) {
  multiply(d_in, d_out, matrix(pick(weights, weight), d_out.columns, d_in.columns));
}

void norm_gradients(const Gradients& gradients, Tensor weight, Matrix d, ConstMatrix d_normed,
                    ConstMatrix x, Weights weights, NormStatistics statistics) {
  const Tensor bias = next(weight);
  layer_norm_backward({d, gradients.into[index(weight)], gradients.into[index(bias)]}, d_normed, x,
                      pick(weights, weight), statistics);
  gradients.produced(index(weight));
  gradients.produced(index(bias));
}

void copy(Matrix to, ConstMatrix from) {
  for (std::size_t row = 0; row < to.rows; ++row) {
    std::ranges::copy(from.row(row), to.row(row).begin());
  }
}

std::size_t float_bytes(std::initializer_list<std::size_t> sizes) {
  std::size_t total = 0;
  for (const std::size_t size : sizes) total += size * sizeof(float);
  return total;
}

}  // namespace

AttentionShape attention_shape(const ModelShape& shape) {
  return {shape.batch, shape.context, shape.heads(), shape.head_width};
}

LayerScratch::LayerScratch(const ModelShape& shape)
    : normed(shape.rows() * shape.width),
      activated(shape.rows() * 4 * shape.width),
      wide(shape.rows() * 4 * shape.width),
      qkv(shape.rows() * 3 * shape.width),
      square(shape.context * shape.context) {}

std::size_t LayerScratch::bytes() const {
  return float_bytes({normed.size(), activated.size(), wide.size(), qkv.size(), square.size()});
}

NormStatistics Layer::Norm::rows(std::size_t first, std::size_t count) {
  return {std::span(mean).subspan(first, count),
          std::span(inverse_deviation).subspan(first, count)};
}

Layer::Layer(const ModelShape& shape)
    : shape_(shape),
      input_(shape.rows() * shape.width),
      qkv_(shape.rows() * 3 * shape.width),
      probabilities_(attention_shape(shape).probability_count()),
      attended_(shape.rows() * shape.width),
      middle_(shape.rows() * shape.width),
      up_(shape.rows() * 4 * shape.width),
      norm1_{std::vector<float>(shape.rows()), std::vector<float>(shape.rows())},
      norm2_{std::vector<float>(shape.rows()), std::vector<float>(shape.rows())} {}

std::size_t Layer::bytes() const {
  return float_bytes({input_.size(), qkv_.size(), probabilities_.size(), attended_.size(),
                      middle_.size(), up_.size(), 4 * norm1_.mean.size()});
}

void Layer::forward(Matrix x, Weights weights, LayerScratch& scratch, Positions positions) {
  const std::size_t rows = shape_.rows(), width = shape_.width;
  const std::size_t first = positions.begin;
  const std::size_t count = shape_.batch == 1 ? positions.size() : rows;
  const auto part = [&](std::vector<float>& values, std::size_t columns) {
    return matrix(std::span(values), rows, columns).row_range(first, count);
  };
  const Matrix stream = x.row_range(first, count);
  const Matrix normed = part(scratch.normed, width), up = part(up_, 4 * width);
  const Matrix attended = part(attended_, width), activated = part(scratch.activated, 4 * width);

  copy(part(input_, width), stream);
  layer_norm(normed, stream, pick(weights, Tensor::norm1_weight), pick(weights, Tensor::norm1_bias),
             norm1_.rows(first, count));
  linear(part(qkv_, 3 * width), normed, weights, Tensor::qkv_weight);
  attend(matrix(std::span(attended_), rows, width), probabilities_,
         matrix(std::span(qkv_), rows, 3 * width), attention_shape(shape_), positions);
  linear(normed, attended, weights, Tensor::mix_weight);
  add(stream, normed);

  copy(part(middle_, width), stream);
  layer_norm(normed, stream, pick(weights, Tensor::norm2_weight), pick(weights, Tensor::norm2_bias),
             norm2_.rows(first, count));
  linear(up, normed, weights, Tensor::up_weight);
  gelu(activated, up);
  linear(normed, activated, weights, Tensor::down_weight);
  add(stream, normed);
}

void Layer::backward(Matrix d, Weights weights, LayerScratch& scratch, const Gradients& gradients) {
  backward_mlp(d, weights, scratch, gradients);
  backward_attention(d, weights, scratch, gradients);
}

void Layer::backward_mlp(Matrix d, Weights weights, LayerScratch& scratch,
                         const Gradients& gradients) {
  const std::size_t rows = shape_.rows(), width = shape_.width;
  const Matrix wide = matrix(std::span(scratch.wide), rows, 4 * width);
  const Matrix activated = matrix(std::span(scratch.activated), rows, 4 * width);
  const Matrix normed = matrix(std::span(scratch.normed), rows, width);
  const Matrix middle = matrix(std::span(middle_), rows, width);
  const Matrix up = matrix(std::span(up_), rows, 4 * width);
  const NormStatistics statistics = norm2_.rows(0, rows);

  gelu(activated, up);
  linear_gradients(gradients, Tensor::down_weight, d, activated);
  linear_input(wide, d, weights, Tensor::down_weight);
  gelu_backward(wide, up);
  layer_norm(normed, middle, pick(weights, Tensor::norm2_weight), pick(weights, Tensor::norm2_bias),
             statistics);
  linear_gradients(gradients, Tensor::up_weight, wide, normed);
  linear_input(normed, wide, weights, Tensor::up_weight);
  norm_gradients(gradients, Tensor::norm2_weight, d, normed, middle, weights, statistics);
}

void Layer::backward_attention(Matrix d, Weights weights, LayerScratch& scratch,
                               const Gradients& gradients) {
  const std::size_t rows = shape_.rows(), width = shape_.width;
  const Matrix d_qkv = matrix(std::span(scratch.qkv), rows, 3 * width);
  const Matrix normed = matrix(std::span(scratch.normed), rows, width);
  const Matrix attended = matrix(std::span(attended_), rows, width);
  const Matrix input = matrix(std::span(input_), rows, width);
  const NormStatistics statistics = norm1_.rows(0, rows);

  linear_gradients(gradients, Tensor::mix_weight, d, attended);
  linear_input(normed, d, weights, Tensor::mix_weight);
  attend_backward(d_qkv, scratch.square, normed, matrix(std::span(qkv_), rows, 3 * width),
                  probabilities_, attention_shape(shape_));
  layer_norm(normed, input, pick(weights, Tensor::norm1_weight), pick(weights, Tensor::norm1_bias),
             statistics);
  linear_gradients(gradients, Tensor::qkv_weight, d_qkv, normed);
  linear_input(normed, d_qkv, weights, Tensor::qkv_weight);
  norm_gradients(gradients, Tensor::norm1_weight, d, normed, input, weights, statistics);
}

}  // namespace train_gpt
