// How a model is cut: tensors are packed into runs, runs are cut into shards.
//
// A run is the tensors of one unit, one group and one parameter type, in order of add, each padded
// to kSegmentElements. Its parameters lie in one piece of DRAM, so that a tensor's parameters are
// contiguous and a shard's are a window of the run. A shard is a piece of a run whose state is at
// most `shard_bytes`; the pieces of one run are as equal as kShardElements allows. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "optim_cpu/state_format.h"
#include "runtime/tensor_table.h"

namespace headrace {

// The part of one tensor that lies in one shard.
struct Segment {
  TensorId tensor{0};              // a root
  std::uint64_t tensor_begin = 0;  // its first element, in the tensor
  std::uint64_t shard_begin = 0;   // and in the shard
  std::uint64_t count = 0;         // elements of the tensor
  std::uint64_t padded = 0;        // and with padding
  std::uint64_t step = 0;          // updates it has had
};

struct ShardSpec {
  UnitId unit{0};
  GroupId group{0};
  ScalarType param = ScalarType::bf16;
  StateLayout layout = StateLayout::fp32;
  std::uint64_t elements = 0;      // a multiple of kShardElements
  std::uint64_t state_bytes = 0;   // elements x bytes per element of the layout
  std::uint64_t param_offset = 0;  // bytes, into the parameters' memory
  std::uint64_t param_bytes = 0;
  std::vector<Segment> segments;
};

// A unit's parameters: one range of the parameters' memory.
struct UnitSpec {
  UnitId unit{0};
  std::uint64_t param_offset = 0;
  std::uint64_t param_bytes = 0;
  std::vector<std::uint32_t> shards;  // of its own tensors and of those that its aliases mean
  std::vector<TensorId> tensors;      // aliases too
};

struct ModelLayout {
  std::vector<ShardSpec> shards;  // in the order of the next forward: by unit
  std::vector<ShardSpec> frozen;  // pieces of frozen parameters: they have no state
  std::vector<UnitSpec> units;
  std::vector<std::uint64_t> param_offset;            // of each tensor (its root's), bytes
  std::vector<std::uint64_t> grad_offset;             // of each trainable root, bytes
  std::vector<std::vector<std::uint32_t>> shards_of;  // of each tensor (its root's)
  std::uint64_t param_bytes = 0;
  std::uint64_t grad_bytes = 0;
};

ModelLayout lay_out(const TensorTable& tensors, StateFormat format, std::uint64_t shard_bytes);

}  // namespace headrace
