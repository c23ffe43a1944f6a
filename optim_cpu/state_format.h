// How a shard's optimizer state lies in memory and on disk, and how its masters are read and set.
//
// A shard's state is three arrays, one after the other, each over all elements of the shard:
//   fp32        [master 4 B | exp_avg 4 B | exp_avg_sq 4 B]
//   split       [low half of master 2 B | exp_avg 4 B | exp_avg_sq 4 B]; the bf16 parameter is the
//               high half, rounded: that plus the low half, sign-extended, are the master's bits
//   own_master  [exp_avg 4 B | exp_avg_sq 4 B]; the fp32 parameter is the master
// Zeroed memory is a state of zeros in each. Pure functions, callable from any thread; the caller
// keeps others from the memory meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "optim_cpu/dtype.h"

namespace headrace {

// What a user asks for, and what that means for one shard.
enum class StateFormat : std::uint8_t { fp32, split };
enum class StateLayout : std::uint8_t { fp32, split, own_master };

// Shards are padded to the first, segments of a shard to the second.
inline constexpr std::size_t kShardElements = 2048;
inline constexpr std::size_t kSegmentElements = 256;

// fp32 parameters are their own master in either format; fp16 ones have the fp32 layout in either.
StateLayout layout_of(StateFormat format, ScalarType param);
std::size_t state_bytes_per_element(StateLayout layout);

// Bytes of the master's array for one element: 4, 2 in split, 0 for own_master.
std::size_t master_bytes(StateLayout layout);

// A window of a shard's state: where its first element lies in each array.
struct StateView {
  std::byte* master = nullptr;  // float, or the low halves in split; null for own_master
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
};

// `state` is the whole shard's, shard_elements of it; the window begins at element `begin`.
StateView state_view(StateLayout layout, std::byte* state, std::size_t shard_elements,
                     std::size_t begin);

// The masters of a window, out.size() of them. `param` is the window's parameters; not read in
// fp32.
void master_from(StateLayout layout, const StateView& state, const std::byte* param,
                 std::span<float> out);

// Sets the masters of a window to exactly `values` (a NaN becomes kNanBits), and its parameters to
// their rounding. Moments stay.
void set_master(StateLayout layout, const StateView& state, std::byte* param, ScalarType param_type,
                std::span<const float> values);

// Sets the parameters of a window to `count` values of their own type, and the masters to exactly
// the same values. Moments stay.
void set_param(StateLayout layout, const StateView& state, std::byte* param, ScalarType param_type,
               const std::byte* values, std::size_t count);

}  // namespace headrace
