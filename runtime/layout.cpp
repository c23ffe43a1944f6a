#include "runtime/layout.h"

#include <algorithm>

#include "io/bytes.h"

namespace headrace {
namespace {

constexpr std::uint64_t kParamAlignment = 4096;  // of a run, and so of what streams copy

struct Run {
  bool trainable;
  GroupId group;
  ScalarType param;
  std::vector<TensorId> tensors;
  std::uint64_t elements = 0;  // padded
};

// The runs of one unit, in order of their first tensor.
std::vector<Run> runs_of(const TensorTable& tensors, UnitId unit) {
  std::vector<Run> runs;
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors.all()[i];
    const TensorSpec& spec = tensor.spec;
    if (spec.unit != unit || tensor.is_alias || spec.count == 0) continue;
    auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& r) {
      return r.trainable == spec.trainable && r.param == spec.param &&
             (r.group == spec.group || !spec.trainable);
    });
    if (run == runs.end())
      run = runs.insert(runs.end(), {spec.trainable, spec.group, spec.param, {}, 0});
    run->tensors.push_back(TensorId{i});
    run->elements += tensor.padded;
  }
  return runs;
}

// Adds to `shard` what lies in [begin, begin + elements) of the run.
void add_segments(const TensorTable& tensors, const Run& run, std::uint64_t begin,
                  ShardSpec& shard) {
  const std::uint64_t end = begin + shard.elements;
  std::uint64_t at = 0;
  for (const TensorId id : run.tensors) {
    const Tensor& tensor = tensors[id];
    const std::uint64_t from = std::max(at, begin), to = std::min(at + tensor.padded, end);
    if (from < to) {
      const std::uint64_t count = std::min(to - at, tensor.spec.count) - (from - at);
      shard.segments.push_back({id, from - at, from - begin, count, to - from, 0});
    }
    at += tensor.padded;
  }
}

void cut(const TensorTable& tensors, const Run& run, UnitId unit, StateFormat format,
         std::uint64_t shard_bytes, ModelLayout& layout) {
  const StateLayout state = layout_of(format, run.param);
  const std::uint64_t element_bytes = state_bytes_per_element(state);
  const std::uint64_t most = std::max<std::uint64_t>(
      round_down(shard_bytes / element_bytes, kShardElements), kShardElements);
  const std::uint64_t pieces = (run.elements + most - 1) / most;
  const std::uint64_t each = round_up((run.elements + pieces - 1) / pieces, kShardElements);
  for (std::uint64_t begin = 0; begin < run.elements; begin += each) {
    ShardSpec shard;
    shard.unit = unit;
    shard.group = run.group;
    shard.param = run.param;
    shard.layout = state;
    const std::uint64_t here = std::min(each, run.elements - begin);
    shard.elements = round_up(here, kShardElements);
    shard.state_bytes = shard.elements * element_bytes;
    shard.param_offset = layout.param_bytes + begin * size_of(run.param);
    shard.param_bytes = here * size_of(run.param);
    add_segments(tensors, run, begin, shard);
    const auto number = static_cast<std::uint32_t>(layout.shards.size());
    for (const Segment& segment : shard.segments)
      layout.shards_of[index_of(segment.tensor)].push_back(number);
    layout.shards.push_back(std::move(shard));
  }
}

// What has parameters only, in pieces that pass through a slot.
void cut_frozen(const Run& run, UnitId unit, std::uint64_t piece_bytes, ModelLayout& layout) {
  const std::uint64_t bytes = run.elements * size_of(run.param);
  const std::uint64_t most = std::max(round_down(piece_bytes, kParamAlignment), kParamAlignment);
  for (std::uint64_t at = 0; at < bytes; at += most) {
    ShardSpec piece;
    piece.unit = unit;
    piece.group = run.group;
    piece.param = run.param;
    piece.param_offset = layout.param_bytes + at;
    piece.param_bytes = std::min(most, bytes - at);
    layout.frozen.push_back(std::move(piece));
  }
}

void lay_out_run(const TensorTable& tensors, const Run& run, UnitId unit, StateFormat format,
                 std::uint64_t shard_bytes, ModelLayout& layout) {
  if (run.trainable)
    cut(tensors, run, unit, format, shard_bytes, layout);
  else
    cut_frozen(run, unit, shard_bytes, layout);
  std::uint64_t at = layout.param_bytes;
  for (const TensorId id : run.tensors) {
    const Tensor& tensor = tensors[id];
    layout.param_offset[index_of(id)] = at;
    at += tensor.padded * size_of(run.param);
    if (!run.trainable) continue;
    layout.grad_offset[index_of(id)] = layout.grad_bytes;
    layout.grad_bytes += tensor.padded * size_of(tensor.spec.grad);
  }
  layout.param_bytes = round_up(at, kParamAlignment);
}

// What each unit holds, once every shard has its number.
void list_tensors(const TensorTable& tensors, UnitSpec& unit, ModelLayout& layout) {
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors.all()[i];
    if (tensor.spec.unit != unit.unit) continue;
    unit.tensors.push_back(TensorId{i});
    const auto& shards = layout.shards_of[index_of(tensor.root)];
    unit.shards.insert(unit.shards.end(), shards.begin(), shards.end());
  }
  std::sort(unit.shards.begin(), unit.shards.end());
  unit.shards.erase(std::unique(unit.shards.begin(), unit.shards.end()), unit.shards.end());
}

}  // namespace

ModelLayout lay_out(const TensorTable& tensors, StateFormat format, std::uint64_t shard_bytes) {
  ModelLayout layout;
  layout.param_offset.resize(tensors.size());
  layout.grad_offset.resize(tensors.size());
  layout.shards_of.resize(tensors.size());
  for (const UnitId unit : tensors.units()) {
    const std::uint64_t begin = layout.param_bytes;
    for (const Run& run : runs_of(tensors, unit))
      lay_out_run(tensors, run, unit, format, shard_bytes, layout);
    layout.units.push_back({unit, begin, layout.param_bytes - begin, {}, {}});
  }
  for (UnitSpec& unit : layout.units) list_tensors(tensors, unit, layout);
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {  // aliases lie where their roots do
    const std::uint32_t root = index_of(tensors.all()[i].root);
    if (root == i) continue;
    layout.param_offset[i] = layout.param_offset[root];
    layout.shards_of[i] = layout.shards_of[root];
  }
  return layout;
}

}  // namespace headrace
