// Reading and writing the state of single tensors, wherever it lies.
//
// With the engine's mutex held; queues and returns what to wait for. Ranges were checked before.
#pragma once

#include "runtime/loan.h"
#include "runtime/parts.h"

namespace headrace {

// `to` and `from` hold range.count elements: fp32, or the tensor's own type for Kind::param. They
// are touched while the loan lasts.
Event queue_read(EngineParts& parts, TensorId root, Kind kind, Range range, MemView to,
                 const Loan& loan);
Event queue_write(EngineParts& parts, TensorId root, Kind kind, Range range, ConstMemView from,
                  const Loan& loan);

// Queues what follows a change of a frozen tensor's parameters in DRAM by `changed`: to their copy
// on the device, and to a reusable slab. Over when they are there.
Event store_frozen(EngineParts& parts, TensorId root, Range range, const Event& changed);

// A window of a shard's state, in a slot or in place, as checkpoints and reads see it: the values
// of `kind` for out.size() elements from `begin` (in the shard) on.
void read_window(const Shard& shard, const std::byte* state, Kind kind, std::uint64_t begin,
                 std::span<float> out);
void write_window(const Shard& shard, std::byte* state, Kind kind, std::uint64_t begin,
                  std::span<const float> values);

// Where in the shard's state these values of `kind` lie. Of no size where the parameter is the
// master.
BlockSums::Run state_bytes(const ShardSpec& shard, Kind kind, std::uint64_t begin,
                           std::uint64_t count);

// The bytes that `kind` takes for one element of the tensor.
std::size_t element_bytes(const Tensor& tensor, Kind kind);

}  // namespace headrace
