// The pieces that a checkpoint's data move in: each lies in one block of one run of the file, and
// in one shard (or in the parameters of a frozen tensor).
#pragma once

#include <functional>

#include "runtime/checkpoint_format.h"
#include "runtime/parts.h"

namespace headrace {

struct CheckpointPiece {
  TensorId tensor{0};
  Kind kind = Kind::master;
  std::uint64_t tensor_begin = 0;  // elements
  std::uint64_t shard_begin = 0;   // in the shard; not for frozen tensors
  std::uint64_t count = 0;         // at most kBlockElements
  std::uint64_t bytes() const { return count * sizeof(float); }
};

// What the manifest says of the engine's tensors: roots, in order of add. `numbers` gets the place
// in the manifest of each root.
std::vector<CheckpointTensor> describe(const EngineParts& parts, std::vector<std::size_t>& numbers);

// The pieces of one shard, and of one frozen tensor: in element order within each run.
std::vector<CheckpointPiece> pieces_of(const ShardSpec& shard);
std::vector<CheckpointPiece> pieces_of(const EngineParts& parts, TensorId frozen);

// The roots without state.
std::vector<TensorId> frozen_tensors(const EngineParts& parts);

// Waits for all of them, each with the engine's deadline; the first failure in order. A timeout
// ends the waiting.
Status wait_for_each(EngineParts& parts, const std::vector<Event>& events);

}  // namespace headrace
