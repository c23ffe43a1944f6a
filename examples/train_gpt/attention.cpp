#include "examples/train_gpt/attention.h"

#include <algorithm>
#include <cmath>

#include "examples/train_gpt/elementwise.h"

namespace train_gpt {
namespace {

struct Head {
  std::size_t sequence = 0, index = 0;
};

// Queries are taken this many at a time, each block against the keys up to its last query. That
// leaves out most of what the mask would remove; and at a context of 128 a block's products are
// just small enough (2^18 multiplications) for OpenBLAS to keep them on the calling thread. Waiting
// for a second thread thousands of times a step costs more than it gains as soon as the optimizer
// wants a core.
constexpr std::size_t kBlock = 32;

template <class Body>
void for_each_block(const AttentionShape& shape, Positions positions, Body body) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t h = 0; h < shape.heads; ++h) {
      for (std::size_t at = positions.begin; at < positions.end; at += kBlock) {
        body(Head{b, h}, Positions{at, std::min(at + kBlock, positions.end)});
      }
    }
  }
}

enum class Part : std::size_t { query, key, value };

template <class T>
BasicMatrix<T> part(BasicMatrix<T> qkv, Part which, Head head, const AttentionShape& shape) {
  const auto third = static_cast<std::size_t>(which) * shape.width();
  return qkv.row_range(head.sequence * shape.context, shape.context)
      .column_range(third + head.index * shape.head_width, shape.head_width);
}

template <class T>
BasicMatrix<T> output(BasicMatrix<T> out, Head head, const AttentionShape& shape) {
  return out.row_range(head.sequence * shape.context, shape.context)
      .column_range(head.index * shape.head_width, shape.head_width);
}

// The probabilities of these rows over the columns that they may see.
template <class T>
BasicMatrix<T> seen(std::span<T> probabilities, Head head, const AttentionShape& shape,
                    Positions rows) {
  const std::size_t first = (head.sequence * shape.heads + head.index) * shape.context + rows.begin;
  return {probabilities.subspan(first * shape.context), rows.size(), rows.end, shape.context};
}

float score_scale(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_width));
}

}  // namespace

void attend(Matrix out, std::span<float> probabilities, ConstMatrix qkv,
            const AttentionShape& shape, Positions positions) {
  for_each_block(shape, positions, [&](Head head, Positions rows) {
    const auto query = part(qkv, Part::query, head, shape).row_range(rows.begin, rows.size());
    const auto key = part(qkv, Part::key, head, shape).row_range(0, rows.end);
    const auto value = part(qkv, Part::value, head, shape).row_range(0, rows.end);
    const auto scores = seen(probabilities, head, shape, rows);
    multiply(scores, query, transposed(key), {.scale = score_scale(shape)});
    causal_softmax(scores, rows.begin + 1);
    multiply(output(out, head, shape).row_range(rows.begin, rows.size()), scores, value);
  });
}

void attend_backward(Matrix d_qkv, std::span<float> scratch, ConstMatrix d_out, ConstMatrix qkv,
                     std::span<const float> probabilities, const AttentionShape& shape) {
  const ProductOptions scaled{.scale = score_scale(shape)};
  const ProductOptions scaled_sum{.scale = score_scale(shape), .add = true};
  std::ranges::fill(d_qkv.values, 0.0F);
  for_each_block(shape, {0, shape.context}, [&](Head head, Positions rows) {
    const auto p = seen(probabilities, head, shape, rows);
    const auto d = output(d_out, head, shape).row_range(rows.begin, rows.size());
    const auto query = part(qkv, Part::query, head, shape).row_range(rows.begin, rows.size());
    const auto key = part(qkv, Part::key, head, shape).row_range(0, rows.end);
    const auto value = part(qkv, Part::value, head, shape).row_range(0, rows.end);
    const auto d_query = part(d_qkv, Part::query, head, shape).row_range(rows.begin, rows.size());
    const auto d_key = part(d_qkv, Part::key, head, shape).row_range(0, rows.end);
    const auto d_value = part(d_qkv, Part::value, head, shape).row_range(0, rows.end);
    const auto d_scores = matrix(scratch, rows.size(), rows.end);
    multiply(d_value, transposed(p), d, {.add = true});
    multiply(d_scores, d, transposed(value));
    softmax_backward(d_scores, p);
    multiply(d_query, d_scores, key, scaled);
    multiply(d_key, transposed(d_scores), query, scaled_sum);
  });
}

}  // namespace train_gpt
