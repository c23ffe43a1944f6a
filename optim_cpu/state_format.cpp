#include "optim_cpu/state_format.h"

#include <bit>
#include <cstring>

#include "optim_cpu/convert.h"

namespace headrace {
namespace {

struct Halves {
  std::uint16_t high, low;
};

Halves split_of(float master) {
  const auto bits = std::bit_cast<std::uint32_t>(master);
  return {static_cast<std::uint16_t>((bits + 0x8000u) >> 16),
          static_cast<std::uint16_t>(bits & 0xffffu)};
}

float joined(Halves halves) {
  const auto low = static_cast<std::uint32_t>(static_cast<std::int16_t>(halves.low));
  return std::bit_cast<float>((std::uint32_t{halves.high} << 16) + low);
}

float one_nan(float value) { return value == value ? value : std::bit_cast<float>(kNanBits); }

void set_float(std::byte* array, std::size_t i, float value) {
  reinterpret_cast<float*>(array)[i] = value;
}

void set_half(std::byte* array, std::size_t i, std::uint16_t value) {
  reinterpret_cast<std::uint16_t*>(array)[i] = value;
}

std::uint16_t half_at(const std::byte* array, std::size_t i) {
  return reinterpret_cast<const std::uint16_t*>(array)[i];
}

void set_one(StateLayout layout, const StateView& state, std::byte* param, ScalarType param_type,
             std::size_t i, float value) {
  if (layout == StateLayout::own_master) return set_float(param, i, value);
  if (layout == StateLayout::split) {
    const Halves halves = split_of(value);
    set_half(state.master, i, halves.low);
    set_half(param, i, halves.high);
    return;
  }
  set_float(state.master, i, value);
  set_half(param, i, param_type == ScalarType::bf16 ? bf16_of_float(value) : fp16_of_float(value));
}

std::size_t master_bytes(StateLayout layout) { return state_bytes_per_element(layout) - 8; }

}  // namespace

StateLayout layout_of(StateFormat format, ScalarType param) {
  if (param == ScalarType::fp32) return StateLayout::own_master;
  const bool split = format == StateFormat::split && param == ScalarType::bf16;
  return split ? StateLayout::split : StateLayout::fp32;
}

std::size_t state_bytes_per_element(StateLayout layout) {
  switch (layout) {
    case StateLayout::split:
      return 10;
    case StateLayout::own_master:
      return 8;
    default:
      return 12;
  }
}

StateView state_view(StateLayout layout, std::byte* state, std::size_t shard_elements,
                     std::size_t begin) {
  const std::size_t element = master_bytes(layout);
  auto* const exp_avg = reinterpret_cast<float*>(state + element * shard_elements);
  return {.master = element == 0 ? nullptr : state + element * begin,
          .exp_avg = exp_avg + begin,
          .exp_avg_sq = exp_avg + shard_elements + begin};
}

void master_from(StateLayout layout, const StateView& state, const std::byte* param,
                 std::span<float> out) {
  if (out.empty()) return;
  if (layout == StateLayout::split) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = joined({half_at(param, i), half_at(state.master, i)});
    return;
  }
  std::memcpy(out.data(), layout == StateLayout::own_master ? param : state.master,
              out.size_bytes());
}

void set_master(StateLayout layout, const StateView& state, std::byte* param, ScalarType param_type,
                std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    set_one(layout, state, param, param_type, i, one_nan(values[i]));
}

void set_param(StateLayout layout, const StateView& state, std::byte* param, ScalarType param_type,
               const std::byte* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    set_one(layout, state, param, param_type, i, one_nan(float_at(values, param_type, i)));
}

}  // namespace headrace
