#include "examples/train_gpt/model.h"

#include <algorithm>

namespace train_gpt {
namespace {

constexpr auto kToken = static_cast<std::size_t>(EmbeddingTensor::token);
constexpr auto kPosition = static_cast<std::size_t>(EmbeddingTensor::position);
constexpr auto kNormWeight = static_cast<std::size_t>(FinalTensor::norm_weight);
constexpr auto kNormBias = static_cast<std::size_t>(FinalTensor::norm_bias);
constexpr auto kHead = static_cast<std::size_t>(FinalTensor::head);

void add_row(std::span<float> to, std::span<const float> from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

}  // namespace

Model::Model(const ModelShape& shape)
    : shape_(shape),
      positions_{0, shape.context},
      layers_(shape.layers, Layer(shape)),
      scratch_(shape),
      residual_(shape.rows() * shape.width),
      final_input_(shape.rows() * shape.width),
      final_normed_(shape.rows() * shape.width),
      mean_(shape.rows()),
      inverse_deviation_(shape.rows()),
      logits_(shape.rows() * kVocabulary) {}

std::size_t Model::activation_bytes() const {
  std::size_t total = scratch_.bytes();
  for (const Layer& layer : layers_) total += layer.bytes();
  for (const auto* values :
       {&residual_, &final_input_, &final_normed_, &mean_, &inverse_deviation_, &logits_}) {
    total += values->size() * sizeof(float);
  }
  return total;
}

void Model::start(std::span<const std::uint8_t> tokens) { start(tokens, {0, shape_.context}); }

void Model::start(std::span<const std::uint8_t> tokens, Positions positions) {
  tokens_ = tokens;
  positions_ = positions;
}

void Model::forward(std::size_t unit, Weights weights) {
  if (unit == 0) return forward_embedding(weights);
  if (unit == shape_.units() - 1) return forward_final(weights);
  layers_[unit - 1].forward(stream(), weights, scratch_, positions_);
}

void Model::backward(std::size_t unit, Weights weights, const Gradients& gradients, float scale) {
  if (unit == 0) return backward_embedding(gradients);
  if (unit == shape_.units() - 1) return backward_final(weights, gradients, scale);
  layers_[unit - 1].backward(stream(), weights, scratch_, gradients);
}

Matrix Model::stream() { return matrix(std::span(residual_), shape_.rows(), shape_.width); }

void Model::forward_embedding(Weights weights) {
  const ConstMatrix token = matrix(weights[kToken], kVocabulary, shape_.width);
  const ConstMatrix position = matrix(weights[kPosition], shape_.context, shape_.width);
  for (std::size_t sequence = 0; sequence < shape_.batch; ++sequence) {
    for (std::size_t t = positions_.begin; t < positions_.end; ++t) {
      const std::size_t row = sequence * shape_.context + t;
      std::ranges::copy(token.row(tokens_[row]), stream().row(row).begin());
      add_row(stream().row(row), position.row(t));
    }
  }
}

void Model::forward_final(Weights weights) {
  const std::size_t rows = shape_.rows(), width = shape_.width;
  const std::size_t first = positions_.begin;
  const std::size_t count = shape_.batch == 1 ? positions_.size() : rows;
  const auto part = [&](std::vector<float>& values, std::size_t columns) {
    return matrix(std::span(values), rows, columns).row_range(first, count);
  };
  std::ranges::copy(residual_, final_input_.begin());
  layer_norm(part(final_normed_, width), part(final_input_, width), weights[kNormWeight],
             weights[kNormBias],
             {std::span(mean_).subspan(first, count),
              std::span(inverse_deviation_).subspan(first, count)});
  multiply(part(logits_, kVocabulary), part(final_normed_, width),
           transposed(matrix(weights[kHead], kVocabulary, width)));
}

ConstMatrix Model::logits() const { return matrix(std::span(logits_), shape_.rows(), kVocabulary); }

double Model::loss(std::span<const std::uint8_t> targets) {
  targets_ = targets;
  return cross_entropy(matrix(std::span(logits_), shape_.rows(), kVocabulary), targets);
}

void Model::backward_final(Weights weights, const Gradients& gradients, float scale) {
  const std::size_t rows = shape_.rows(), width = shape_.width;
  const Matrix d_logits = matrix(std::span(logits_), rows, kVocabulary);
  const Matrix normed = matrix(std::span(final_normed_), rows, width);
  cross_entropy_backward(d_logits, targets_, scale);
  multiply(matrix(gradients.into[kHead], kVocabulary, width), transposed(d_logits), normed);
  gradients.produced(kHead);
  multiply(normed, d_logits, matrix(weights[kHead], kVocabulary, width));
  std::ranges::fill(residual_, 0.0F);
  layer_norm_backward({stream(), gradients.into[kNormWeight], gradients.into[kNormBias]}, normed,
                      matrix(std::span(final_input_), rows, width), weights[kNormWeight],
                      {mean_, inverse_deviation_});
  gradients.produced(kNormWeight);
  gradients.produced(kNormBias);
}

void Model::backward_embedding(const Gradients& gradients) {
  const Matrix token = matrix(gradients.into[kToken], kVocabulary, shape_.width);
  const Matrix position = matrix(gradients.into[kPosition], shape_.context, shape_.width);
  std::ranges::fill(gradients.into[kToken], 0.0F);
  std::ranges::fill(gradients.into[kPosition], 0.0F);
  for (std::size_t row = 0; row < shape_.rows(); ++row) {
    add_row(token.row(tokens_[row]), stream().row(row));
    add_row(position.row(row % shape_.context), stream().row(row));
  }
  gradients.produced(kToken);
  gradients.produced(kPosition);
}

}  // namespace train_gpt
