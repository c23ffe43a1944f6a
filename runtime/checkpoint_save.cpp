#include <fmt/format.h>

#include <algorithm>
#include <deque>
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
    // One before it could not be read, and was left out: the save fails, and so do these sums.
    if (sums.bytes() != piece.tensor_begin * sizeof(float)) return;
    sums.update(bytes);
    if (piece.tensor_begin + piece.count < tensor.count) return;
    sums.finish();
    open.erase(key);
  }
};

// What of the shard's state is read by itself.
std::vector<BlockSums::Run> state_runs(const Shard& shard) {
  const BlockSums::Run all{0, shard.param_at};
  if (!shard.home_sums()) return {all};
  std::vector<BlockSums::Run> runs = shard.home_sums()->runs();
  std::erase_if(runs, [&](const BlockSums::Run& run) { return run.at >= all.size; });
  if (!runs.empty()) runs.back().size = std::min(runs.back().size, all.size - runs.back().at);
  return runs;
}

constexpr std::uint64_t kBytesPerSync = 32 * kMiB;
constexpr std::uint64_t kStagedElements = kStagingBytes / sizeof(float);
static_assert(kStagedElements % kBlockElements == 0);

// Memory of two blocks of the file, which are written together.
struct Block {
  Bytes memory;
  Event* free;  // of the memory that it lies in
};

// A block on its way to be full: pieces of one shard after the other are put into it. No more than
// three at a time, of the tensor that goes on in the next shard.
struct OpenBlock {
  std::size_t block = 0;
  std::vector<Event> filled = {};
};

// A part of the slot: what of a shard's state comes there, and what it is used for.
struct SlotPart {
  BlockSums::Run bytes;
  Event there;
  std::vector<Event> uses;

  Event used() const { return Event::all(uses); }
  bool meets(const BlockSums::Run& other) const {
    return bytes.at < other.at + other.size && other.at < bytes.at + bytes.size;
  }
};

// Training goes on meanwhile: the save has a lane, slots and blocks of its own, and holds up a
// change of a shard only until it has read that shard.
struct Save {
  EngineParts& parts;
  IoQueue& queue;
  const File& file;
  std::shared_ptr<SaveJob> job;
  std::map<std::pair<std::uint32_t, Kind>, OpenBlock> open = {};
  std::vector<Event> writes = {};
  std::vector<Event> syncs = {};
  Event last_sync, next_sync;
  std::size_t synced_writes = 0;
  std::uint64_t unsynced_bytes = 0;
  std::vector<Event> all_filled = {};
  Slot* slot = nullptr;
  std::vector<SlotPart> now = {};      // in the slot, of the shard that is queued
  std::vector<SlotPart> earlier = {};  // and of those before it
  std::vector<Block> blocks = {};
  std::deque<Event> cut_free = {};  // of the blocks that slots were cut into
  std::size_t next_block = 0;

  // The engine's blocks for checkpoints. Where it can have more than one slot, the others are cut
  // into more of them: with few, the drive would wait for the lane and the lane for the drive.
  void take_memory() {
    for (Slot& block : parts.staging)
      blocks.push_back({block.state.region().view().bytes(), &block.free});
    const std::span<Slot> slots = parts.save_slots();
    if (slots.empty()) return;
    slot = &slots.front();
    slot->holds.reset();
    now.push_back({{0, slot->state.region().size()}, {}, {slot->free}});
    for (Slot& other : slots.subspan(1)) cut(other);
  }

  void cut(Slot& other) {
    const Bytes memory = other.state.region().view().bytes();
    other.holds.reset();
    for (std::size_t at = 0; at + kStagingBytes <= memory.size(); at += kStagingBytes)
      blocks.push_back({memory.subspan(at, kStagingBytes), &cut_free.emplace_back(other.free)});
  }

  void give_memory_back() {
    std::vector<Event> used(cut_free.begin(), cut_free.end());
    for (const std::vector<SlotPart>* each : {&now, &earlier})
      for (const SlotPart& part : *each) used.push_back(part.used());
    for (Slot& each : parts.save_slots()) each.free = Event::all(used);
  }

  std::size_t next_free_block() {
    const auto is_open = [this](std::size_t block) {
      return std::ranges::any_of(open,
                                 [&](const auto& each) { return each.second.block == block; });
    };
    while (is_open(next_block % blocks.size())) ++next_block;
    return next_block++ % blocks.size();
  }

  // Queues: `fill` puts the piece's values into the staging block of its place in the file.
  Event put(const CheckpointPiece& piece, std::function<void(std::span<float>)> fill,
            const Event& after) {
    const auto [at, fresh] = open.try_emplace({index_of(piece.tensor), piece.kind});
    if (fresh) at->second.block = next_free_block();
    const Block& block = blocks[at->second.block];
    const std::uint64_t begin = piece.tensor_begin % kStagedElements * sizeof(float);
    const Bytes rest = block.memory.subspan(begin);
    const Event filled =
        parts.checkpoints->run({.body =
                                    [=, shared = job] {
                                      fill({reinterpret_cast<float*>(rest.data()), piece.count});
                                      shared->pass(piece, rest.first(piece.bytes()));
                                      return Status();
                                    },
                                .bytes = piece.bytes(),
                                .name = "save",
                                .owner = parts.owner},
                               Event::all({after, *block.free}));
    at->second.filled.push_back(filled);
    const std::uint64_t end = piece.tensor_begin + piece.count;
    if (end % kStagedElements == 0 || end == job->entry(piece.tensor).count)
      write(piece, std::move(open.extract(at).mapped()), begin + piece.bytes());
    return filled;
  }

  // Whole blocks, or the end of their run and zeros up to where the next one begins: in whole
  // pages, as a drive wants them.
  void write(const CheckpointPiece& last, OpenBlock filled, std::uint64_t size) {
    const Block& block = blocks[filled.block];
    const Bytes bytes = block.memory.first(round_up(size, kRunAlignment));
    const std::uint64_t end = job->entry(last.tensor).offset(last.kind) +
                              (last.tensor_begin + last.count) * sizeof(float);
    const Event padded = parts.checkpoints->run({.body =
                                                     [padding = bytes.subspan(size)] {
                                                       std::ranges::fill(padding, std::byte{0});
                                                       return Status();
                                                     },
                                                 .name = "save",
                                                 .owner = parts.owner},
                                                Event::all(filled.filled));
    const Event written =
        queue.write(file, end - size, bytes, padded, {.owner = parts.owner, .name = "save"});
    *block.free = Event::all({written.over(), last_sync.over()});
    writes.push_back(written);
    unsynced_bytes += bytes.size();
    if (unsynced_bytes >= kBytesPerSync && !file.info().direct) sync();
  }

  // Where the drive can't be written to past the page cache: that never holds more than
  // kBytesPerSync three times, and the last sync of all has little left to do.
  void sync() {
    last_sync = next_sync;
    next_sync = queue.sync(file, Event::all(std::span(writes).subspan(synced_writes)),
                           {.owner = parts.owner, .name = "save"});
    syncs.push_back(next_sync);
    synced_writes = writes.size();
    unsynced_bytes = 0;
  }

  // To the slot, part by part: each as soon as what lies there is written, so that the drive does
  // not wait for a whole shard.
  void load(const Shard& shard) {
    StepContext context = parts.context();
    earlier.insert(earlier.end(), now.begin(), now.end());
    now.clear();
    for (const BlockSums::Run& run : state_runs(shard)) {
      std::vector<Event> after = {shard.settled};
      for (const SlotPart& last : earlier)
        if (last.meets(run)) after.push_back(last.used());
      const Event there = read_home(shard, run, slot->state.region().sub(run.at, run.size),
                                    Event::all(after), context);
      now.push_back({run, there, {there.over()}});
    }
    std::erase_if(earlier, [&](const SlotPart& last) {
      return last.bytes.at + last.bytes.size <= shard.param_at;
    });
  }

  void shard(Shard& shard) {
    if (!shard.in_place) load(shard);
    const std::byte* const state =
        (shard.in_place ? shard.state : slot->state).region().view().data;
    const std::span<SlotPart> mine = shard.in_place ? std::span<SlotPart>() : std::span(now);
    std::vector<Event> read;
    for (const CheckpointPiece& piece : pieces_of(shard.spec)) {
      const BlockSums::Run bytes =
          state_bytes(shard.spec, piece.kind, piece.shard_begin, piece.count);
      std::vector<Event> there = {shard.settled};
      for (const SlotPart& part : mine)
        if (part.meets(bytes)) there.push_back(part.there);
      const Event filled = put(
          piece,
          [&shard, state, piece](std::span<float> out) {
            read_window(shard, state, piece.kind, piece.shard_begin, out);
          },
          Event::all(there));
      for (SlotPart& part : mine)
        if (part.meets(bytes)) part.uses.push_back(filled.over());
      read.push_back(filled.over());
    }
    for (const SlotPart& part : mine) read.push_back(part.used());
    const Event was_read = Event::all(read);
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
    take_memory();
    for (Shard& shard : parts.shards) this->shard(shard);
    for (const TensorId id : frozen_tensors(parts)) frozen(id);
    give_memory_back();
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
  const Call call(parts);
  auto job = std::make_shared<SaveJob>();
  {
    std::unique_lock lock(parts.mutex);
    HEADRACE_TRY(parts.await_idle(lock));
    HEADRACE_TRY(parts.check_usable());
    HEADRACE_ASSIGN(job->manifest,
                    plan_manifest(describe(parts, job->numbers), {extra.begin(), extra.end()}));
  }
  HEADRACE_ASSIGN(IoQueue * queue, queue_of_checkpoint(parts.platform, folder));
  HEADRACE_ASSIGN(CheckpointWriter writer,
                  CheckpointWriter::create(
                      parts.platform, *queue, folder, job->manifest,
                      {.deadline = parts.options.deadline, .owner = parts.owner, .direct = true}));
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
