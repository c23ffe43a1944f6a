#include "runtime/state_access.h"

#include <algorithm>
#include <cstring>

#include "optim_cpu/convert.h"

namespace headrace {
namespace {

// The part of a range that lies in one segment.
struct StatePiece {
  std::uint32_t shard = 0;
  std::uint64_t shard_begin = 0;  // elements, in the shard
  std::uint64_t range_begin = 0;  // elements, in the range
  std::uint64_t count = 0;
};

std::vector<StatePiece> pieces_of(const EngineParts& parts, TensorId root, Range range) {
  std::vector<StatePiece> pieces;
  for (const std::uint32_t id : parts.layout.shards_of[index_of(root)]) {
    for (const Segment& segment : parts.shards[id].spec.segments) {
      if (segment.tensor != root) continue;
      const std::uint64_t from = std::max(segment.tensor_begin, range.begin);
      const std::uint64_t to =
          std::min(segment.tensor_begin + segment.count, range.begin + range.count);
      if (from >= to) continue;
      pieces.push_back(
          {id, segment.shard_begin + (from - segment.tensor_begin), from - range.begin, to - from});
    }
  }
  return pieces;
}

StateView window(const Shard& shard, std::byte* state, std::uint64_t begin) {
  return state_view(shard.spec.layout, state, shard.spec.elements, begin);
}

std::byte* params_of(const Shard& shard, std::uint64_t begin) {
  return shard.host_param.view().data + begin * size_of(shard.spec.param);
}

std::span<const float> floats(const std::byte* bytes, std::uint64_t count) {
  return {reinterpret_cast<const float*>(bytes), count};
}

std::span<float> floats(std::byte* bytes, std::uint64_t count) {
  return {reinterpret_cast<float*>(bytes), count};
}

// Frozen tensors have parameters only: their master is the parameter.
Event access_frozen(EngineParts& parts, TensorId root, Kind kind, Range range, MemView to,
                    ConstMemView from, const Loan& loan) {
  const Tensor& tensor = parts.tensors[root];
  const ScalarType type = tensor.spec.param;
  std::byte* const param = parts.param_of(root) + range.begin * size_of(type);
  const ScalarType other = kind == Kind::param ? type : ScalarType::fp32;
  const bool writing = from.size > 0;
  const Event after = writing ? Event::all({parts.leases->unused(), parts.frozen_saved}) : Event();
  const Event done = parts.cpu->run({.body = loan.body([=, count = range.count, team = parts.team] {
                                       if (writing)
                                         convert(param, type, from.data, other, count, team);
                                       else
                                         convert(to.data, other, param, type, count, team);
                                       return Status();
                                     }),
                                     .bytes = range.count * size_of(type),
                                     .name = writing ? "write" : "read",
                                     .owner = parts.owner},
                                    after);
  return writing ? store_frozen(parts, root, range, done) : done;
}

// To the pieces' places on NVMe, and where they are computed with.
Event store_pieces(EngineParts& parts, std::uint64_t begin, std::uint64_t end,
                   const Event& changed) {
  StepContext context = parts.context();
  std::vector<Event> ends = {changed};
  for (Shard& piece : parts.frozen) {
    const std::uint64_t from = piece.spec.param_offset;
    if (from >= end || from + piece.spec.param_bytes <= begin) continue;
    Slot& slot = parts.slots[piece.id % parts.slots.size()];
    store(piece, &slot, Event::all({changed, piece.settled, slot.free}), context);
    ends.push_back(piece.settled);
  }
  return Event::all(ends);
}

void write_piece(const Shard& shard, std::byte* state, Kind kind, std::uint64_t begin,
                 const std::byte* from, std::uint64_t count) {
  if (kind == Kind::param)
    set_param(shard.spec.layout, window(shard, state, begin), params_of(shard, begin),
              shard.spec.param, from, count);
  else
    write_window(shard, state, kind, begin, floats(from, count));
}

}  // namespace

std::size_t element_bytes(const Tensor& tensor, Kind kind) {
  return kind == Kind::param ? size_of(tensor.spec.param) : sizeof(float);
}

void read_window(const Shard& shard, const std::byte* state, Kind kind, std::uint64_t begin,
                 std::span<float> out) {
  // The view is only read here; one type serves both directions.
  const StateView view = window(shard, const_cast<std::byte*>(state), begin);
  if (kind == Kind::master)
    master_from(shard.spec.layout, view, params_of(shard, begin), out);
  else
    std::copy_n(kind == Kind::exp_avg ? view.exp_avg : view.exp_avg_sq, out.size(), out.begin());
}

BlockSums::Run state_bytes(const ShardSpec& shard, Kind kind, std::uint64_t begin,
                           std::uint64_t count) {
  const std::uint64_t master = master_bytes(shard.layout);
  if (kind == Kind::master) return {begin * master, count * master};
  const std::uint64_t before = kind == Kind::exp_avg ? master : master + sizeof(float);
  return {shard.elements * before + begin * sizeof(float), count * sizeof(float)};
}

void write_window(const Shard& shard, std::byte* state, Kind kind, std::uint64_t begin,
                  std::span<const float> values) {
  const StateView view = window(shard, state, begin);
  if (kind == Kind::master)
    set_master(shard.spec.layout, view, params_of(shard, begin), shard.spec.param, values);
  else
    std::copy(values.begin(), values.end(), kind == Kind::exp_avg ? view.exp_avg : view.exp_avg_sq);
}

Event queue_read(EngineParts& parts, TensorId root, Kind kind, Range range, MemView to,
                 const Loan& loan) {
  const Tensor& tensor = parts.tensors[root];
  if (!tensor.spec.trainable) return access_frozen(parts, root, kind, range, to, {}, loan);
  const std::size_t bytes = element_bytes(tensor, kind);
  StepContext context = parts.context();
  const std::span<Slot> slots = parts.step_slots();
  std::vector<Event> reads;
  for (const StatePiece& piece : pieces_of(parts, root, range)) {
    Shard& shard = parts.shards[piece.shard];
    Slot* const slot =
        shard.in_place || kind == Kind::param ? nullptr : &slot_of(shard, slots, context);
    const std::byte* const state =
        kind == Kind::param ? nullptr : (slot ? slot->state : shard.state).region().view().data;
    std::byte* const out = to.data + piece.range_begin * bytes;
    const Event read = parts.cpu->run(
        {.body = loan.body([&shard, state, kind, out, piece] {
           if (kind == Kind::param)
             std::memcpy(out, params_of(shard, piece.shard_begin),
                         piece.count * size_of(shard.spec.param));
           else
             read_window(shard, state, kind, piece.shard_begin, floats(out, piece.count));
           return Status();
         }),
         .bytes = piece.count * bytes,
         .name = "read",
         .owner = parts.owner},
        slot ? Event::all({slot->loaded, shard.settled}) : shard.settled);
    Event& kept = slot ? slot->free : shard.settled;  // what the next change waits for
    kept = Event::all({kept, read.over()});
    reads.push_back(read);
  }
  return Event::all(reads);
}

Event queue_write(EngineParts& parts, TensorId root, Kind kind, Range range, ConstMemView from,
                  const Loan& loan) {
  const Tensor& tensor = parts.tensors[root];
  parts.leases->forget();
  if (!tensor.spec.trainable)
    return parts.changed(access_frozen(parts, root, kind, range, {}, from, loan));
  const std::size_t bytes = element_bytes(tensor, kind);
  StepContext context = parts.context();
  const std::span<Slot> slots = parts.step_slots();
  std::vector<Event> writes;
  for (const StatePiece& piece : pieces_of(parts, root, range)) {
    Shard& shard = parts.shards[piece.shard];
    Slot* const slot = shard.in_place ? nullptr : &slot_of(shard, slots, context);
    std::byte* const state = (slot ? slot->state : shard.state).region().view().data;
    const std::byte* const in = from.data + piece.range_begin * bytes;
    const Event there = slot ? Event::all({slot->loaded, shard.settled}) : shard.settled;
    const Event changed =
        parts.cpu->run({.body = loan.body([&shard, state, kind, in, piece] {
                          write_piece(shard, state, kind, piece.shard_begin, in, piece.count);
                          return Status();
                        }),
                        .bytes = piece.count * bytes,
                        .name = "write",
                        .owner = parts.owner},
                       Event::all({there, shard.param_unused}));
    store(shard, slot, changed, context);
    writes.push_back(shard.settled);
  }
  return parts.changed(Event::all(writes));
}

Event store_frozen(EngineParts& parts, TensorId root, Range range, const Event& changed) {
  parts.frozen_changed = Event::all({parts.frozen_changed, changed.over()});
  const std::size_t bytes = size_of(parts.tensors[root].spec.param);
  const std::uint64_t at = parts.layout.param_offset[index_of(root)] + range.begin * bytes;
  const std::uint64_t size = range.count * bytes;
  if (parts.slab) return store_pieces(parts, at, at + size, changed);
  if (parts.options.params != ParamHome::hbm) return changed;
  return parts.mover->move(parts.param_memory.region().sub(at, size),
                           parts.device_param_memory.region().sub(at, size), changed,
                           {.name = "param"});
}

}  // namespace headrace
