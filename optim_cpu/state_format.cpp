#include "optim_cpu/state_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

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

std::uint16_t* halves_of(std::byte* array) { return reinterpret_cast<std::uint16_t*>(array); }

std::uint16_t half_at(const std::byte* array, std::size_t i) {
  return reinterpret_cast<const std::uint16_t*>(array)[i];
}

void set_floats(float* to, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) to[i] = one_nan(values[i]);
}

void set_halves(std::uint16_t* low, std::uint16_t* high, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Halves halves = split_of(one_nan(values[i]));
    low[i] = halves.low;
    high[i] = halves.high;
  }
}

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

std::size_t master_bytes(StateLayout layout) { return state_bytes_per_element(layout) - 8; }

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
  switch (layout) {
    case StateLayout::own_master:
      return set_floats(reinterpret_cast<float*>(param), values);
    case StateLayout::split:
      return set_halves(halves_of(state.master), halves_of(param), values);
    case StateLayout::fp32:
      set_floats(reinterpret_cast<float*>(state.master), values);
      return convert(param, param_type, state.master, ScalarType::fp32, values.size(), Team{});
  }
}

void set_param(StateLayout layout, const StateView& state, std::byte* param, ScalarType param_type,
               const std::byte* values, std::size_t count) {
  float piece[1024];
  for (std::size_t begin = 0; begin < count; begin += std::size(piece)) {
    const std::size_t size = std::min(std::size(piece), count - begin);
    const std::size_t master = begin * master_bytes(layout), at = begin * size_of(param_type);
    convert(reinterpret_cast<std::byte*>(piece), ScalarType::fp32, values + at, param_type, size,
            Team{});
    StateView rest = state;
    if (rest.master != nullptr) rest.master += master;
    set_master(layout, rest, param + at, param_type, {piece, size});
  }
}

}  // namespace headrace
