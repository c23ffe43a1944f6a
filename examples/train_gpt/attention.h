// Causal self-attention over all heads, forward and backward.
//
// `qkv` holds a position's query, key and value side by side: three times the width. Head h owns
// columns [h * head_width, (h + 1) * head_width) of each third. Position t of sequence b is row
// b * context + t. The products run head by head, block by block, through the BLAS.
#pragma once

#include <cstddef>
#include <span>

#include "examples/train_gpt/matrix.h"

namespace train_gpt {

struct AttentionShape {
  std::size_t batch = 0, context = 0, heads = 0, head_width = 0;

  std::size_t width() const { return heads * head_width; }
  std::size_t probability_count() const { return batch * heads * context * context; }
};

// Positions of each sequence; the earlier ones' keys and values stay in `qkv`, so text can grow by
// one position at a time. All of them unless batch is 1.
struct Positions {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

// Writes rows `positions` of `out`, and of `probabilities` (batch x heads x context x context).
void attend(Matrix out, std::span<float> probabilities, ConstMatrix qkv,
            const AttentionShape& shape, Positions positions);

// For whole sequences. `scratch` holds context * context.
void attend_backward(Matrix d_qkv, std::span<float> scratch, ConstMatrix d_out, ConstMatrix qkv,
                     std::span<const float> probabilities, const AttentionShape& shape);

}  // namespace train_gpt
