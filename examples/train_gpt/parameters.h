// What the model consists of: its shape, and every parameter in the order of the forward pass.
//
// A unit is what is needed at one moment: unit 0 the embeddings, units 1 to `layers` one layer
// each, the last unit the final norm and the head, which shares the token embedding's weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace train_gpt {

inline constexpr std::size_t kVocabulary = 256;  // bytes

struct ModelShape {
  std::size_t layers = 12, width = 384, context = 128, batch = 4;
  std::size_t head_width = 64;  // divides width

  std::size_t heads() const { return width / head_width; }
  std::size_t units() const { return layers + 2; }
  std::size_t rows() const { return batch * context; }
};

enum class Group : std::uint8_t { decay, no_decay };

// Order of a layer's tensors; matrices are [out, in].
enum class LayerTensor : std::uint8_t {
  norm1_weight,
  norm1_bias,
  qkv_weight,
  qkv_bias,
  mix_weight,
  mix_bias,
  norm2_weight,
  norm2_bias,
  up_weight,
  up_bias,
  down_weight,
  down_bias,
  count
};
enum class EmbeddingTensor : std::uint8_t { token, position, count };
enum class FinalTensor : std::uint8_t { norm_weight, norm_bias, head, count };

struct Initial {
  float mean = 0, deviation = 0;
};

struct Parameter {
  std::string name;
  std::size_t unit = 0;
  Group group = Group::decay;
  std::vector<std::size_t> shape;
  Initial initial;
  std::optional<std::size_t> alias_of;  // index of the parameter whose values this one shares

  std::size_t count() const;
};

std::vector<Parameter> parameters(const ModelShape& shape);
// Of distinct values: aliases count once.
std::size_t parameter_count(std::span<const Parameter> parameters);

// The starting values of parameter `index`: a function of seed and index alone, so the order of
// calls does not matter. Normal deviates use the C library's log and cos: another one may round
// differently.
void initialise(std::span<float> values, Initial initial, std::uint64_t seed, std::size_t index);

}  // namespace train_gpt
