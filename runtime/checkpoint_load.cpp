#include <fmt/format.h>

#include <cstring>
#include <map>
#include <unordered_map>

#include "optim_cpu/convert.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_folder.h"
#include "runtime/checkpoint_walk.h"
#include "runtime/state_access.h"

namespace headrace {
namespace {

using ByName = std::unordered_map<std::string, const CheckpointTensor*>;

Status other_model(std::string why) {
  return Status(Code::invalid, fmt::format("the checkpoint is of another model: {}", why));
}

// Each root of the engine has its tensor in the checkpoint, and no other is there.
Result<ByName> match(const EngineParts& parts, const Manifest& manifest) {
  ByName by_name;
  for (const CheckpointTensor& tensor : manifest.tensors) by_name.emplace(tensor.name, &tensor);
  std::vector<std::size_t> numbers;
  const std::vector<CheckpointTensor> wanted = describe(parts, numbers);
  for (const CheckpointTensor& tensor : wanted) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end())
      return other_model(fmt::format("it has no tensor \"{}\"", tensor.name));
    const CheckpointTensor& saved = *found->second;
    if (saved.count != tensor.count)
      return other_model(fmt::format("tensor \"{}\" has {} elements there and {} here", tensor.name,
                                     saved.count, tensor.count));
    if (saved.param != tensor.param || saved.trainable != tensor.trainable)
      return other_model(
          fmt::format("tensor \"{}\" has another parameter type there, or is not "
                      "trainable in one of the two",
                      tensor.name));
  }
  if (by_name.size() != wanted.size())
    return other_model(
        fmt::format("it has {} tensors, this one {}", by_name.size(), wanted.size()));
  return by_name;
}

// Each piece that is read to be used, by its place in the file, and the checksum it had when its
// block was verified: the file is read twice, and the second reading is checked too.
struct PieceSum {
  std::uint64_t size = 0;
  std::uint64_t sum = 0;
};
using PieceSums = std::map<std::uint64_t, PieceSum>;

// Of the pieces in a block that begins at `offset`.
void note_pieces(PieceSums& sums, std::uint64_t offset, ConstBytes bytes) {
  const auto end = sums.lower_bound(offset + bytes.size());
  for (auto piece = sums.lower_bound(offset); piece != end; ++piece)
    piece->second.sum = checksum(bytes.subspan(piece->first - offset, piece->second.size));
}

struct Load {
  EngineParts& parts;
  IoQueue& queue;
  const CheckpointReader& reader;
  const ByName& by_name;
  std::size_t next_block = 0;
  std::shared_ptr<PieceSums> sums = std::make_shared<PieceSums>();

  const CheckpointTensor& saved(TensorId id) const {
    return *by_name.at(parts.tensors[id].spec.name);
  }

  // Queues: the file's bytes into a staging block, then `use` of them on the optimizer's lane.
  Event get(std::uint64_t offset, std::uint64_t size, std::function<Status(ConstBytes)> use,
            const Event& after, Check check = {}) {
    Slot& block = parts.staging[next_block++ % parts.staging.size()];
    const Bytes bytes = block.state.region().view().bytes().first(size);
    const Event read =
        queue.read(reader.data(), offset, bytes, block.free,
                   {.owner = parts.owner, .name = "load checkpoint", .check = std::move(check)});
    const Event used = parts.cpu->run({.body = [=] { return use(bytes); },
                                       .bytes = size,
                                       .name = "load checkpoint",
                                       .owner = parts.owner},
                                      Event::all({read, after}));
    block.free = Event::all({read.over(), used.over()});
    return used;
  }

  std::vector<Event> verify(const CheckpointTensor& tensor, Kind kind) {
    std::vector<Event> checks;
    for (std::uint64_t b = 0; b < tensor.blocks(); ++b) {
      const std::uint64_t begin = b * kBlockElements;
      const std::uint64_t count = std::min(kBlockElements, tensor.count - begin);
      const std::uint64_t offset = tensor.offset(kind) + begin * sizeof(float);
      const std::uint64_t wanted = tensor.checksums[index_of(kind)][b];
      const auto compare = [sums = sums, wanted, kind, b, offset,
                            name = tensor.name](ConstBytes bytes) {
        if (checksum(bytes) == wanted) return note_pieces(*sums, offset, bytes), Status();
        return Status(Code::corrupt,
                      fmt::format("block {} of {} of \"{}\", at offset {}, is not what was saved: "
                                  "run `headrace check` on it, and use another checkpoint",
                                  b, name_of(kind), name, offset));
      };
      checks.push_back(get(offset, count * sizeof(float), compare, {}));
    }
    return checks;
  }

  std::uint64_t place_of(const CheckpointPiece& piece) const {
    return saved(piece.tensor).offset(piece.kind) + piece.tensor_begin * sizeof(float);
  }

  void list_pieces() {
    const auto list = [this](const std::vector<CheckpointPiece>& pieces) {
      for (const CheckpointPiece& p : pieces) (*sums)[place_of(p)] = {p.bytes(), 0};
    };
    for (const Shard& shard : parts.shards) list(pieces_of(shard.spec));
    for (const TensorId id : frozen_tensors(parts)) list(pieces_of(parts, id));
  }

  // Its bytes must be those that were verified.
  Event piece(const CheckpointPiece& piece, std::function<void(std::span<const float>)> use,
              const Event& after) {
    const std::uint64_t at = place_of(piece);
    const auto same = [wanted = sums->at(at).sum](std::uint64_t, ConstBytes bytes) {
      return checksum(bytes) == wanted
                 ? Status()
                 : Status(Code::corrupt, "these are not the bytes that were verified just before");
    };
    return get(
        at, piece.bytes(),
        [use = std::move(use)](ConstBytes bytes) {
          use({reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)});
          return Status();
        },
        after, same);
  }

  Event shard(Shard& shard) {
    StepContext context = parts.context();
    Slot* const slot = shard.in_place ? nullptr : &parts.slots[shard.id % parts.slots.size()];
    const Region memory = (slot ? slot->state : shard.state).region();
    std::byte* const state = memory.view().data;
    std::vector<Event> changes = {parts.cpu->run(
        {.body =
             [state, size = memory.size()] {
               std::memset(state, 0, size);
               return Status();
             },
         .bytes = memory.size(),
         .name = "load checkpoint",
         .owner = parts.owner},
        Event::all({shard.settled, slot ? slot->free : Event(), shard.param_unused}))};
    for (const CheckpointPiece& p : pieces_of(shard.spec))
      changes.push_back(piece(
          p,
          [&shard, state, p](std::span<const float> values) {
            write_window(shard, state, p.kind, p.shard_begin, values);
          },
          changes.front()));
    for (Segment& segment : shard.spec.segments) segment.step = saved(segment.tensor).step;
    store(shard, slot, Event::all(changes), context);
    return shard.settled;
  }

  Event frozen(TensorId id) {
    const ScalarType type = parts.tensors[id].spec.param;
    std::vector<Event> changes;
    for (const CheckpointPiece& p : pieces_of(parts, id)) {
      std::byte* const to = parts.param_of(id) + p.tensor_begin * size_of(type);
      changes.push_back(piece(
          p,
          [to, type](std::span<const float> values) {
            convert(to, type, reinterpret_cast<const std::byte*>(values.data()), ScalarType::fp32,
                    values.size(), Team{});
          },
          Event::all({parts.leases->unused(), parts.frozen_saved})));
    }
    return store_frozen(parts, id, {0, parts.tensors[id].padded}, Event::all(changes));
  }
};

Status begin_load(EngineParts& parts) {
  const std::lock_guard lock(parts.mutex);
  const Status usable = parts.check_usable();
  if (!usable.ok() && usable.code() != Code::poisoned) return usable;
  if (const std::string holders = parts.leases->holders(); !holders.empty())
    return Status(Code::invalid, fmt::format("load with leases live ({}): release them", holders));
  parts.busy = true;
  return {};
}

// With the mutex, as another thread may close the engine meanwhile.
Result<std::vector<Event>> queue_checks(EngineParts& parts, Load& load,
                                        const CheckpointTensor& tensor) {
  const std::lock_guard lock(parts.mutex);
  HEADRACE_TRY(parts.check_open());
  std::vector<Event> checks;
  for (std::size_t kind = 0; kind < tensor.kinds(); ++kind) {
    const std::vector<Event> more = load.verify(tensor, static_cast<Kind>(kind));
    checks.insert(checks.end(), more.begin(), more.end());
  }
  return checks;
}

Status verify_all(EngineParts& parts, Load& load, const Manifest& manifest) {
  load.list_pieces();
  for (const CheckpointTensor& tensor : manifest.tensors) {
    HEADRACE_ASSIGN(const std::vector<Event> checks, queue_checks(parts, load, tensor));
    HEADRACE_TRY(wait_for_each(parts, checks));
  }
  return {};
}

// How whatever was queued before has ended is known: a reusable slab then knows which places it may
// write over.
Event settled(const EngineParts& parts) {
  const std::lock_guard lock(parts.mutex);
  return parts.all_settled().over();
}

// Past this point the state changes: a failure leaves a mixed model, and poisons.
Status apply(EngineParts& parts, Load& load) {
  if (parts.slab) HEADRACE_TRY(parts.platform.wait(settled(parts), parts.options.deadline));
  std::vector<Event> changes;
  {
    const std::lock_guard lock(parts.mutex);
    HEADRACE_TRY(parts.check_open());
    if (parts.slab) parts.slab->roll_back(parts);
    parts.each_shard([](Shard& shard) { shard.settled = shard.settled.over(); });
    for (Slot& slot : parts.slots) slot.holds.reset();
    for (Shard& shard : parts.shards) changes.push_back(load.shard(shard));
    for (const TensorId id : frozen_tensors(parts)) changes.push_back(load.frozen(id));
    parts.gradients->clear();
    parts.leases->forget();
    parts.filling = false;
    parts.changes.clear();
    parts.poisoned = {};
    changes.push_back(parts.changed(Event::all(changes)));
  }
  const Status how = wait_for_each(parts, changes);
  if (how.ok()) return {};
  const std::lock_guard lock(parts.mutex);
  return parts.poison(how);
}

Result<std::vector<std::byte>> run_load(EngineParts& parts, const std::filesystem::path& folder) {
  HEADRACE_ASSIGN(IoQueue * queue, queue_of_checkpoint(parts.platform, folder));
  HEADRACE_ASSIGN(
      const CheckpointReader reader,
      CheckpointReader::open(parts.platform, *queue, folder,
                             {.deadline = parts.options.deadline, .owner = parts.owner}));
  HEADRACE_ASSIGN(const ByName by_name, match(parts, reader.manifest()));
  Load load{parts, *queue, reader, by_name};
  HEADRACE_TRY(verify_all(parts, load, reader.manifest()));
  HEADRACE_TRY(apply(parts, load));
  return reader.manifest().user;
}

}  // namespace

Result<std::vector<std::byte>> load(EngineParts& parts, const std::filesystem::path& folder) {
  const Call call(parts);
  HEADRACE_TRY(begin_load(parts));
  Result<std::vector<std::byte>> loaded = run_load(parts, folder);
  const std::lock_guard lock(parts.mutex);
  parts.busy = false;
  parts.idle.notify_all();
  return loaded;
}

}  // namespace headrace
