#include "runtime/checkpoint_walk.h"

#include <algorithm>

namespace headrace {
namespace {

std::uint64_t steps_of(const EngineParts& parts, TensorId root) {
  const auto& shards = parts.layout.shards_of[index_of(root)];
  if (shards.empty()) return 0;
  for (const Segment& segment : parts.shards[shards.front()].spec.segments)
    if (segment.tensor == root) return segment.step;
  return 0;
}

// Cuts [begin, begin + count) of a tensor at the borders of the file's blocks.
void cut(std::vector<CheckpointPiece>& pieces, CheckpointPiece piece, std::uint64_t count) {
  while (count > 0) {
    const std::uint64_t to_border = kBlockElements - piece.tensor_begin % kBlockElements;
    piece.count = std::min(count, to_border);
    pieces.push_back(piece);
    piece.tensor_begin += piece.count;
    piece.shard_begin += piece.count;
    count -= piece.count;
  }
}

}  // namespace

std::vector<CheckpointTensor> describe(const EngineParts& parts,
                                       std::vector<std::size_t>& numbers) {
  std::vector<CheckpointTensor> described;
  numbers.assign(parts.tensors.size(), 0);
  for (std::uint32_t i = 0; i < parts.tensors.size(); ++i) {
    const Tensor& tensor = parts.tensors.all()[i];
    if (tensor.is_alias) continue;
    numbers[i] = described.size();
    CheckpointTensor entry;
    entry.name = tensor.spec.name;
    entry.param = tensor.spec.param;
    entry.trainable = tensor.spec.trainable;
    entry.count = tensor.spec.count;
    entry.step = steps_of(parts, TensorId{i});
    described.push_back(std::move(entry));
  }
  return described;
}

std::vector<CheckpointPiece> pieces_of(const ShardSpec& shard) {
  std::vector<CheckpointPiece> pieces;
  for (const Segment& segment : shard.segments)
    for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq})
      cut(pieces, {segment.tensor, kind, segment.tensor_begin, segment.shard_begin, 0},
          segment.count);
  return pieces;
}

std::vector<CheckpointPiece> pieces_of(const EngineParts& parts, TensorId frozen) {
  std::vector<CheckpointPiece> pieces;
  cut(pieces, {frozen, Kind::master, 0, 0, 0}, parts.tensors[frozen].spec.count);
  return pieces;
}

std::vector<TensorId> frozen_tensors(const EngineParts& parts) {
  std::vector<TensorId> frozen;
  for (std::uint32_t i = 0; i < parts.tensors.size(); ++i)
    if (!parts.tensors.all()[i].is_alias && !parts.tensors.all()[i].spec.trainable)
      frozen.push_back(TensorId{i});
  return frozen;
}

Status wait_for_each(EngineParts& parts, const std::vector<Event>& events) {
  Status first;
  for (const Event& event : events) {
    const Status how = parts.wait(event);
    if (how.code() == Code::timeout && !event.done()) return how;
    if (first.ok()) first = how;
  }
  return first;
}

}  // namespace headrace
