#include "examples/train_gpt/attention.h"

#include <cmath>

#include "examples/train_gpt/elementwise.h"

namespace train_gpt {
namespace {

struct Head {
  std::size_t sequence = 0, index = 0;
};

template <class Body>
void for_each_head(const AttentionShape& shape, Body body) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t h = 0; h < shape.heads; ++h) body(Head{b, h});
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

template <class T>
BasicMatrix<T> square(std::span<T> probabilities, Head head, const AttentionShape& shape) {
  const std::size_t size = shape.context * shape.context;
  return {probabilities.subspan((head.sequence * shape.heads + head.index) * size, size),
          shape.context, shape.context, shape.context};
}

float score_scale(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_width));
}

}  // namespace

void attend(Matrix out, std::span<float> probabilities, ConstMatrix qkv,
            const AttentionShape& shape, Positions positions) {
  const std::size_t begin = positions.begin, end = positions.end;
  for_each_head(shape, [&](Head head) {
    const auto query = part(qkv, Part::query, head, shape).row_range(begin, positions.size());
    const auto key = part(qkv, Part::key, head, shape).row_range(0, end);
    const auto value = part(qkv, Part::value, head, shape).row_range(0, end);
    const auto scores =
        square(probabilities, head, shape).row_range(begin, positions.size()).column_range(0, end);
    multiply(scores, query, transposed(key), {.scale = score_scale(shape)});
    causal_softmax(scores, begin + 1);
    multiply(output(out, head, shape).row_range(begin, positions.size()), scores, value);
  });
}

void attend_backward(Matrix d_qkv, std::span<float> scratch, ConstMatrix d_out, ConstMatrix qkv,
                     std::span<const float> probabilities, const AttentionShape& shape) {
  const ProductOptions scaled{.scale = score_scale(shape)};
  for_each_head(shape, [&](Head head) {
    const auto p = square(probabilities, head, shape);
    const auto d = output(d_out, head, shape);
    const auto d_scores = matrix(scratch, shape.context, shape.context);
    multiply(part(d_qkv, Part::value, head, shape), transposed(p), d);
    multiply(d_scores, d, transposed(part(qkv, Part::value, head, shape)));
    softmax_backward(d_scores, p);
    multiply(part(d_qkv, Part::query, head, shape), d_scores, part(qkv, Part::key, head, shape),
             scaled);
    multiply(part(d_qkv, Part::key, head, shape), transposed(d_scores),
             part(qkv, Part::query, head, shape), scaled);
  });
}

}  // namespace train_gpt
