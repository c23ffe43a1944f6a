// The names by which a user speaks of a model's parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headrace {

enum class TensorId : std::uint32_t {};
// What is acquired at once: a layer, an expert. Units are used in the order of their numbers.
enum class UnitId : std::uint32_t {};
// Tensors with the same hyperparameters: an index into StepOptions::by_group.
enum class GroupId : std::uint32_t {};

// What is kept of a tensor: fp32 master weights, the two moments (fp32), and the parameter in its
// own type.
enum class Kind : std::uint8_t { master, exp_avg, exp_avg_sq, param };

// The kinds before param are state, and fp32.
constexpr std::size_t kStateKinds = 3;

constexpr std::string_view name_of(Kind kind) noexcept {
  constexpr std::string_view names[] = {"master", "exp_avg", "exp_avg_sq", "param"};
  return names[static_cast<std::size_t>(kind)];
}

template <class Id>
constexpr std::uint32_t index_of(Id id) noexcept {
  return static_cast<std::uint32_t>(id);
}

}  // namespace headrace
