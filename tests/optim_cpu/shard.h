// One shard of each kind, for tests: its state and its parameters.
#pragma once

#include "optim_cpu/state_format.h"
#include "tests/optim_cpu/samples.h"

namespace headrace {

struct ShardKind {
  StateLayout layout;
  ScalarType param;
};

inline constexpr ShardKind kShardKinds[] = {{StateLayout::fp32, ScalarType::bf16},
                                            {StateLayout::fp32, ScalarType::fp16},
                                            {StateLayout::split, ScalarType::bf16},
                                            {StateLayout::own_master, ScalarType::fp32}};

struct Shard {
  Shard(const ShardKind& k, std::size_t n)
      : kind(k),
        count(n),
        state(n * state_bytes_per_element(k.layout)),
        param(n * size_of(k.param)) {}

  StateView view(std::size_t begin) const {
    return state_view(kind.layout, state.data(), count, begin);
  }
  std::byte* param_at(std::size_t begin) const {
    return param.data() + begin * size_of(kind.param);
  }
  void set(std::span<const float> masters, std::size_t begin) const {
    set_master(kind.layout, view(begin), param_at(begin), kind.param, masters);
  }
  std::vector<float> masters() const {
    std::vector<float> out(count);
    master_from(kind.layout, view(0), param.data(), out);
    return out;
  }

  ShardKind kind;
  std::size_t count;
  Array state, param;
};

// Equal as bytes: NaNs too.
inline bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace headrace
