#include <fmt/format.h>

#include <map>

#include "optim_cpu/convert.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_folder.h"
#include "runtime/checkpoint_walk.h"
#include "runtime/state_access.h"

namespace headrace {
namespace {

// What the tasks of one save share. The checksums are touched by one lane alone, which meets
// the elements of each run in order.
struct SaveJob {
  Manifest manifest;
  std::vector<std::size_t> numbers;  // of each root, in the manifest
  std::map<std::pair<std::uint32_t, Kind>, RunChecksums> open;

  CheckpointTensor& entry(TensorId tensor) { return manifest.tensors[numbers[index_of(tensor)]]; }

  void pass(const CheckpointPiece& piece, ConstBytes bytes) {
    const auto key = std::pair(index_of(piece.tensor), piece.kind);
    CheckpointTensor& tensor = entry(piece.tensor);
    RunChecksums& sums = open.try_emplace(key, tensor.sums(piece.kind)).first->second;
    sums.update(bytes);
    if (piece.tensor_begin + piece.count < tensor.count) return;
    sums.finish();
    open.erase(key);
  }
};

constexpr std::uint64_t kBytesPerSync = 32 * kMiB;

// Training goes on meanwhile: the save has a lane, slots and blocks of its own, and holds up a
// change of a shard only until it has read that shard.
struct Save {
  EngineParts& parts;
  IoQueue& queue;
  const File& file;
  std::shared_ptr<SaveJob> job;
  std::vector<Event> writes = {};
  std::vector<Event> syncs = {};
  Event last_sync, next_sync;
  std::size_t synced_writes = 0;
  std::uint64_t unsynced_bytes = 0;
  std::vector<Event> all_filled = {};
  std::size_t next_block = 0;
  std::size_t next_slot = 0;

  // Queues: `fill` puts the piece's values into a staging block, the block goes to the file.
  Event put(const CheckpointPiece& piece, std::function<void(std::span<float>)> fill,
            const Event& after) {
    Slot& block = parts.staging[next_block++ % parts.staging.size()];
    const Bytes bytes = block.state.region().view().bytes().first(piece.bytes());
    const Event filled =
        parts.checkpoints->run({.body =
                                    [=, shared = job] {
                                      fill({reinterpret_cast<float*>(bytes.data()), piece.count});
                                      shared->pass(piece, bytes);
                                      return Status();
                                    },
                                .bytes = piece.bytes(),
                                .name = "save",
                                .owner = parts.owner},
                               Event::all({after, block.free}));
    const std::uint64_t at =
        job->entry(piece.tensor).offset(piece.kind) + piece.tensor_begin * sizeof(float);
    const Event written =
        queue.write(file, at, bytes, filled, {.owner = parts.owner, .name = "save"});
    block.free = Event::all({written.over(), last_sync.over()});
    writes.push_back(written);
    unsynced_bytes += piece.bytes();
    if (unsynced_bytes >= kBytesPerSync) sync();
    return filled;
  }

  // What is written goes to the drive while the save goes on: the page cache never holds more than
  // kBytesPerSync three times, and the last sync of all has little left to do.
  void sync() {
    last_sync = next_sync;
    next_sync = queue.sync(file, Event::all(std::span(writes).subspan(synced_writes)),
                           {.owner = parts.owner, .name = "save"});
    syncs.push_back(next_sync);
    synced_writes = writes.size();
    unsynced_bytes = 0;
  }

  Slot& next(Shard& shard) {
    StepContext context = parts.context();
    const std::span<Slot> slots = parts.save_slots();
    return slot_of(shard, slots.subspan(next_slot++ % slots.size(), 1), context);
  }

  void shard(Shard& shard) {
    Slot* const slot = shard.in_place ? nullptr : &next(shard);
    const std::byte* const state = (slot ? slot->state : shard.state).region().view().data;
    const Event there = slot ? Event::all({slot->loaded, shard.settled}) : shard.settled;
    std::vector<Event> filled;
    for (const CheckpointPiece& piece : pieces_of(shard.spec))
      filled.push_back(put(
          piece,
          [&shard, state, piece](std::span<float> out) {
            read_window(shard, state, piece.kind, piece.shard_begin, out);
          },
          there));
    const Event was_read = Event::all(filled).over();
    if (slot) slot->free = Event::all({slot->free, was_read});
    shard.settled = Event::all({shard.settled, was_read});
    all_filled.push_back(was_read);
  }

  void frozen(TensorId id) {
    const ScalarType type = parts.tensors[id].spec.param;
    std::vector<Event> filled = {parts.frozen_saved};
    for (const CheckpointPiece& piece : pieces_of(parts, id)) {
      const std::byte* const from = parts.param_of(id) + piece.tensor_begin * size_of(type);
      filled.push_back(put(
                           piece,
                           [from, type](std::span<float> out) {
                             convert(reinterpret_cast<std::byte*>(out.data()), ScalarType::fp32,
                                     from, type, out.size(), Team{});
                           },
                           parts.frozen_changed)
                           .over());
    }
    parts.frozen_saved = Event::all(filled);
  }

  void all() {
    for (Shard& shard : parts.shards) this->shard(shard);
    for (const TensorId id : frozen_tensors(parts)) frozen(id);
    parts.saving = Event::all({parts.saving, Event::all(all_filled)});
  }
};

// The steps that belong to the bytes that are queued now: another thread may have stepped while the
// file was made.
void note_steps(const EngineParts& parts, SaveJob& job) {
  std::vector<std::size_t> numbers;
  const std::vector<CheckpointTensor> now = describe(parts, numbers);
  for (std::size_t i = 0; i < now.size(); ++i) job.manifest.tensors[i].step = now[i].step;
}

}  // namespace

Status save(EngineParts& parts, const std::filesystem::path& folder, ConstBytes extra) {
  auto job = std::make_shared<SaveJob>();
  {
    std::unique_lock lock(parts.mutex);
    HEADRACE_TRY(parts.await_idle(lock));
    HEADRACE_TRY(parts.check_usable());
    HEADRACE_ASSIGN(job->manifest,
                    plan_manifest(describe(parts, job->numbers), {extra.begin(), extra.end()}));
  }
  HEADRACE_ASSIGN(IoQueue * queue, queue_of_checkpoint(parts.platform, folder));
  HEADRACE_ASSIGN(
      CheckpointWriter writer,
      CheckpointWriter::create(parts.platform, *queue, folder, job->manifest,
                               {.deadline = parts.options.deadline, .owner = parts.owner}));
  Save save{parts, *queue, writer.data(), job};
  {
    std::unique_lock lock(parts.mutex);
    HEADRACE_TRY(parts.await_idle(lock));
    HEADRACE_TRY(parts.check_usable());
    note_steps(parts, *job);
    parts.checkpoints = &parts.platform.checkpoint_lane();
    save.all();
  }
  HEADRACE_TRY(wait_for_each(parts, save.writes));
  HEADRACE_TRY(wait_for_each(parts, save.syncs));
  return writer.commit(std::move(job->manifest));
}

}  // namespace headrace
