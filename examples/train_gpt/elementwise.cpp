#include "examples/train_gpt/elementwise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace train_gpt {
namespace {

constexpr std::size_t kLanes = 16;
constexpr float kNormEpsilon = 1e-5F;
constexpr float kGeluScale = 1.5957691216057308F;  // 2 sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

// Cephes' expf without branches, so that loops over it vectorise: relative error under 2e-7.
inline float fast_exp(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves an integer in the low bits
  const float shifted = x * 1.44269504088896341F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500E-4F;
  p = p * r + 1.3981999507E-3F;
  p = p * r + 8.3334519073E-3F;
  p = p * r + 4.1665795894E-2F;
  p = p * r + 1.6666665459E-1F;
  p = p * r + 5.0000001201E-1F;
  p = (p * r * r + r) + 1.0F;
  const auto whole = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound);
  return p * std::bit_cast<float>((whole + 127U) << 23U);
}

// The sum of body(i) over [0, count), in kLanes partial sums: a fixed order that vectorises.
template <class Body>
inline float lane_sum(std::size_t count, Body body) {
  std::array<float, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += body(i + lane);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += body(i);
  float total = 0;
  for (const float lane : lanes) total += lane;
  return total;
}

float largest(std::span<const float> row) {
  std::array<float, kLanes> lanes;
  lanes.fill(row[0]);
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = row[i + lane];
      lanes[lane] = lanes[lane] < value ? value : lanes[lane];
    }
  }
  for (; i < row.size(); ++i) lanes[0] = std::max(lanes[0], row[i]);
  return *std::max_element(lanes.begin(), lanes.end());
}

// Turns a row into exp(x - largest) and returns the sum: softmax short of its division.
float exponentials(std::span<float> row, float top) {
  for (float& value : row) value = fast_exp(value - top);
  return lane_sum(row.size(), [&](std::size_t i) { return row[i]; });
}

void norm_row_backward(std::span<float> d_in, std::span<const float> d_out,
                       std::span<const float> x, std::span<const float> weight, float mean,
                       float inverse) {
  const std::size_t n = x.size();
  const float sum = lane_sum(n, [&](std::size_t i) { return d_out[i] * weight[i]; });
  const float dot =
      lane_sum(n, [&](std::size_t i) { return d_out[i] * weight[i] * ((x[i] - mean) * inverse); });
  const float share = 1.0F / static_cast<float>(n);
  const float mean_sum = sum * share, mean_dot = dot * share;
  for (std::size_t i = 0; i < n; ++i) {
    const float normed = (x[i] - mean) * inverse;
    d_in[i] += inverse * (d_out[i] * weight[i] - mean_sum - normed * mean_dot);
  }
}

}  // namespace

void layer_norm(Matrix out, ConstMatrix x, std::span<const float> weight,
                std::span<const float> bias, NormStatistics statistics) {
  const std::size_t n = x.columns;
  const float share = 1.0F / static_cast<float>(n);
  for (std::size_t row = 0; row < x.rows; ++row) {
    const auto in = x.row(row);
    const auto to = out.row(row);
    const float mean = lane_sum(n, [&](std::size_t i) { return in[i]; }) * share;
    const float squares =
        lane_sum(n, [&](std::size_t i) { return (in[i] - mean) * (in[i] - mean); });
    const float inverse = 1.0F / std::sqrt(squares * share + kNormEpsilon);
    for (std::size_t i = 0; i < n; ++i) to[i] = (in[i] - mean) * inverse * weight[i] + bias[i];
    statistics.mean[row] = mean;
    statistics.inverse_deviation[row] = inverse;
  }
}

void layer_norm_backward(NormGradients gradients, ConstMatrix d_out, ConstMatrix x,
                         std::span<const float> weight, NormStatistics statistics) {
  std::fill(gradients.weight.begin(), gradients.weight.end(), 0.0F);
  for (std::size_t row = 0; row < x.rows; ++row) {
    const auto in = x.row(row);
    const auto d = d_out.row(row);
    const float mean = statistics.mean[row], inverse = statistics.inverse_deviation[row];
    norm_row_backward(gradients.input.row(row), d, in, weight, mean, inverse);
    for (std::size_t i = 0; i < in.size(); ++i) {
      gradients.weight[i] += d[i] * ((in[i] - mean) * inverse);
    }
  }
  column_sums(gradients.bias, d_out);
}

void gelu(Matrix out, ConstMatrix x) {
  for (std::size_t row = 0; row < x.rows; ++row) {
    const auto in = x.row(row);
    const auto to = out.row(row);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const float v = in[i];
      to[i] = v / (1.0F + fast_exp(-kGeluScale * (v + kGeluCubic * v * v * v)));
    }
  }
}

void gelu_backward(Matrix d, ConstMatrix x) {
  for (std::size_t row = 0; row < x.rows; ++row) {
    const auto in = x.row(row);
    const auto to = d.row(row);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const float v = in[i];
      const float sigmoid = 1.0F / (1.0F + fast_exp(-kGeluScale * (v + kGeluCubic * v * v * v)));
      const float slope = kGeluScale * (1.0F + 3.0F * kGeluCubic * v * v);
      to[i] *= sigmoid + v * sigmoid * (1.0F - sigmoid) * slope;
    }
  }
}

void add_bias(Matrix m, std::span<const float> bias) {
  for (std::size_t row = 0; row < m.rows; ++row) {
    const auto to = m.row(row);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += bias[i];
  }
}

void add(Matrix m, ConstMatrix other) {
  for (std::size_t row = 0; row < m.rows; ++row) {
    const auto to = m.row(row);
    const auto from = other.row(row);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
}

void column_sums(std::span<float> sums, ConstMatrix m) {
  std::fill(sums.begin(), sums.end(), 0.0F);
  for (std::size_t row = 0; row < m.rows; ++row) {
    const auto from = m.row(row);
    for (std::size_t i = 0; i < from.size(); ++i) sums[i] += from[i];
  }
}

void causal_softmax(Matrix scores, std::size_t visible) {
  for (std::size_t row = 0; row < scores.rows; ++row) {
    const auto all = scores.row(row);
    const auto seen = all.first(visible + row);
    const float sum = exponentials(seen, largest(seen));
    const float inverse = 1.0F / sum;
    for (float& value : seen) value *= inverse;
    std::fill(all.begin() + static_cast<std::ptrdiff_t>(seen.size()), all.end(), 0.0F);
  }
}

void softmax_backward(Matrix d, ConstMatrix probabilities) {
  for (std::size_t row = 0; row < d.rows; ++row) {
    const auto to = d.row(row);
    const auto p = probabilities.row(row);
    const float dot = lane_sum(to.size(), [&](std::size_t i) { return to[i] * p[i]; });
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = p[i] * (to[i] - dot);
  }
}

double cross_entropy(Matrix logits, std::span<const std::uint8_t> targets) {
  double total = 0;
  for (std::size_t row = 0; row < logits.rows; ++row) {
    const auto values = logits.row(row);
    const float top = largest(values);
    const double wanted = static_cast<double>(values[targets[row]]) - static_cast<double>(top);
    const float sum = exponentials(values, top);
    total += std::log(static_cast<double>(sum)) - wanted;
    const float inverse = 1.0F / sum;
    for (float& value : values) value *= inverse;
  }
  return total / static_cast<double>(logits.rows);
}

void cross_entropy_backward(Matrix probabilities, std::span<const std::uint8_t> targets,
                            float scale) {
  const float share = scale / static_cast<float>(probabilities.rows);
  for (std::size_t row = 0; row < probabilities.rows; ++row) {
    const auto values = probabilities.row(row);
    values[targets[row]] -= 1.0F;
    for (float& value : values) value *= share;
  }
}

}  // namespace train_gpt
