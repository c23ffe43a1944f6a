#include "examples/train_gpt/sample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "examples/train_gpt/random.h"

namespace train_gpt {
namespace {

using ByteVector = std::vector<std::uint8_t>;

ByteVector last(std::span<const std::uint8_t> bytes, std::size_t count) {
  const auto kept = bytes.last(std::min(count, bytes.size()));
  return {kept.begin(), kept.end()};
}

}  // namespace

std::uint8_t pick(std::span<const float> logits, float temperature, double uniform) {
  const float top = *std::ranges::max_element(logits);
  std::array<double, kVocabulary> weights{};
  double total = 0;
  for (std::size_t i = 0; i < kVocabulary; ++i) {
    weights[i] = std::exp(static_cast<double>((logits[i] - top) / temperature));
    total += weights[i];
  }
  double left = uniform * total;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < kVocabulary && left >= 0; ++i) {
    if (weights[i] == 0) continue;
    chosen = i;
    left -= weights[i];
  }
  return static_cast<std::uint8_t>(chosen);
}

headrace::Result<ByteVector> sample(Model& model, std::span<const std::uint8_t> prompt,
                                    const SampleOptions& options, const ForwardPass& forward) {
  constexpr std::uint64_t kPurpose = 0x73616D706C65;
  const std::size_t context = model.shape().context;
  ByteVector window = last(prompt, context), text;
  std::size_t known = 0;  // positions whose keys and values the model holds
  while (text.size() < options.count) {
    model.start(window, {known, window.size()});
    HEADRACE_TRY(forward(model));
    known = window.size();
    const std::uint64_t bits = random_bits(mix(options.seed ^ kPurpose), 0, text.size());
    text.push_back(pick(model.logits().row(known - 1), options.temperature, unit_interval(bits)));
    if (window.size() == context) {
      window = last(window, context / 2);
      known = 0;
    }
    window.push_back(text.back());
  }
  return text;
}

}  // namespace train_gpt
