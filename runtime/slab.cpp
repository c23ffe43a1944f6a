#include "runtime/slab.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "optim_cpu/convert.h"
#include "runtime/checksum.h"
#include "runtime/parts.h"
#include "runtime/state_access.h"

namespace headrace {
namespace {

constexpr int kReadings = 2;  // of a commit record, before it is taken for damaged

std::uint64_t hash_of(std::string_view text) {
  return checksum(std::as_bytes(std::span(text.data(), text.size())));
}

// At most: where blocks are cut is known only once the files are.
std::uint64_t record_bytes(const EngineParts& parts) {
  std::uint64_t words = 6;
  for (const ShardSpec& shard : parts.layout.shards)
    words += 3 + shard.segments.size() +
             2 * ((shard.state_bytes + shard.param_bytes) / kSumBlockBytes + 4);
  for (const ShardSpec& shard : parts.layout.frozen)
    words += 3 + 2 * (shard.param_bytes / kSumBlockBytes + 4);
  return round_up(words * sizeof(std::uint64_t), parts.nvme_alignment());
}

std::uint64_t model_sum(const EngineParts& parts) {
  StreamingChecksum sum;
  for (const Tensor& tensor : parts.tensors.all()) {
    const TensorSpec& spec = tensor.spec;
    const std::array<std::uint64_t, 7> words = {
        spec.name.size(),        index_of(spec.unit),
        index_of(spec.group),    spec.count,
        index_of(tensor.root),   static_cast<std::uint64_t>(spec.param),
        spec.trainable ? 1U : 0U};
    sum.update(std::as_bytes(std::span(words)));
    sum.update(std::as_bytes(std::span(spec.name.data(), spec.name.size())));
  }
  return sum.digest();
}

std::uint64_t layout_sum(const EngineParts& parts) {
  StreamingChecksum sum;
  parts.each_shard([&](const Shard& shard) {
    const std::array<std::uint64_t, 4> words = {shard.state.region().offset(), shard.record_bytes,
                                                shard.param_at, shard.spec.elements};
    sum.update(std::as_bytes(std::span(words)));
  });
  for (const unsigned share : parts.options.nvme_shares)
    sum.update(std::as_bytes(std::span(&share, 1)));
  return sum.digest();
}

SlabIdentity identity_of(const EngineParts& parts) {
  SlabIdentity id;
  for (const Tensor& tensor : parts.tensors.all())
    id.parameters += tensor.is_alias ? 0 : tensor.spec.count;
  id.tensors = parts.tensors.size();
  id.model = model_sum(parts);
  id.format = static_cast<std::uint64_t>(parts.options.format);
  id.shards = parts.shards.size();
  id.space = parts.tiers.nvme->capacity();
  id.layout = layout_sum(parts);
  id.paths = parts.options.nvme_paths.size();
  return id;
}

std::vector<ShardShape> shapes_of(const EngineParts& parts) {
  std::vector<ShardShape> shapes;
  parts.each_shard([&](const Shard& shard) {
    const std::size_t blocks = std::max(shard.sums[0]->blocks(), shard.sums[1]->blocks());
    shapes.push_back({blocks, shard.spec.segments.size()});
  });
  return shapes;
}

// All but its checksums.
CommittedShard as_committed(const Shard& shard) {
  CommittedShard committed{.generation = shard.generation, .epoch = shard.epoch};
  for (const Segment& segment : shard.spec.segments) committed.counts.push_back(segment.step);
  return committed;
}

void adopt(Shard& shard, const CommittedShard& committed) {
  shard.generation = static_cast<unsigned>(committed.generation);
  shard.epoch = committed.epoch;
  for (std::size_t i = 0; i < committed.counts.size(); ++i)
    shard.spec.segments[i].step = committed.counts[i];
  shard.home_sums()->adopt(committed.stored, committed.sums);
}

// Makes the parameters in DRAM from a record in memory.
void restore_params(const Shard& shard, std::byte* record) {
  std::byte* const params = shard.host_param.view().data;
  if (shard.kept_param_bytes > 0) {
    std::memcpy(params, record + shard.param_at, shard.kept_param_bytes);
    return;
  }
  for (const Segment& segment : shard.spec.segments) {
    const StateView view =
        state_view(shard.spec.layout, record, shard.spec.elements, segment.shard_begin);
    convert(params + segment.shard_begin * size_of(shard.spec.param), shard.spec.param, view.master,
            ScalarType::fp32, segment.count, Team{});
  }
}

}  // namespace

std::uint64_t Slab::front_bytes(const EngineParts& parts) {
  return parts.nvme_alignment() + 2 * record_bytes(parts);
}

std::uint64_t Slab::buffer_bytes(const EngineParts& parts) { return record_bytes(parts); }

Slab::Slab(EngineParts& parts, Extent buffer)
    : files_(parts.tiers.nvme->stripes()), buffer_(std::move(buffer)), shapes_(shapes_of(parts)) {
  header_.identity = identity_of(parts);
  header_.boot = hash_of(parts.platform.boot_id());
  header_.pid = static_cast<std::uint64_t>(::getpid());
}

Result<std::unique_ptr<Slab>> Slab::open(EngineParts& parts) {
  HEADRACE_ASSIGN(Extent buffer,
                  parts.tiers.slab->allocate_aligned(record_bytes(parts), parts.nvme_alignment()));
  std::unique_ptr<Slab> slab(new Slab(parts, std::move(buffer)));
  std::vector<SlabHeader> found;
  for (std::size_t path = 0; path < slab->files_.paths(); ++path) {
    Result<SlabHeader> header = slab->read_header(parts, path);
    if (header.ok()) found.push_back(*header);
    if (!header.ok() && header.status().code() != Code::unavailable) return header.status();
  }
  HEADRACE_TRY(found.empty() ? slab->begin(parts) : slab->take_up(parts, found));
  return slab;
}

Status Slab::begin(EngineParts& parts) {
  for (std::size_t path = 0; path < files_.paths(); ++path)
    if (files_.info(path).size < files_.file_bytes(path))
      return Status(Code::invalid,
                    fmt::format("{} has {} and this model needs {}: it is no slab of this model, "
                                "remove it or choose another folder",
                                name(path), format_bytes(files_.info(path).size),
                                format_bytes(files_.file_bytes(path))));
  std::random_device random;
  header_.slab = (std::uint64_t{random()} << 32) | random();
  HEADRACE_TRY(wait(parts, commit(parts, {})));
  return write_headers(parts);
}

Status Slab::check_headers(std::span<const SlabHeader> headers) const {
  if (headers.size() < files_.paths())
    return Status(Code::invalid, fmt::format("{} of the slab's {} files are new: give the folders "
                                             "it was made with, in the same order",
                                             files_.paths() - headers.size(), files_.paths()));
  for (std::size_t path = 0; path < headers.size(); ++path) {
    const SlabHeader& found = headers[path];
    HEADRACE_TRY(check_same(header_.identity, found.identity, name(path)));
    if (found.slab != headers[0].slab || found.index != path)
      return Status(Code::invalid, fmt::format("{} is file {} of another slab than {}: give the "
                                               "folders it was made with, in the same order",
                                               name(path), found.index, name(0)));
    if (found.boot != header_.boot)
      return Status(Code::unavailable,
                    fmt::format("{} was last open before this machine was started, and what it "
                                "held may not have reached the drive: remove the file, and load "
                                "the last checkpoint",
                                name(path)));
  }
  return {};
}

Status Slab::take_up(EngineParts& parts, std::span<const SlabHeader> headers) {
  HEADRACE_TRY(check_headers(headers));
  header_.slab = headers[0].slab;
  HEADRACE_ASSIGN(const std::optional<CommitRecord> first, read_record(parts, 0));
  HEADRACE_ASSIGN(const std::optional<CommitRecord> second, read_record(parts, 1));
  if (!first && !second)
    return Status(Code::corrupt, fmt::format("{}: neither commit record is whole: remove the file, "
                                             "and load the last checkpoint",
                                             name(0)));
  const bool newer = second && (!first || second->sequence > first->sequence);
  const CommitRecord& record = newer ? *second : *first;
  sequence_ = record.sequence;
  parts.steps = record.steps;
  parts.skipped = record.skipped;
  std::size_t next = 0;
  parts.each_shard([&](Shard& shard) { adopt(shard, record.shards[next++]); });
  reopened_ = true;
  HEADRACE_TRY(restore(parts));
  commits_.push_back({sequence_, {}, parts.generations()});
  // Another engine may find the other record whole: it names places that are free from now on.
  if (!first || !second) HEADRACE_TRY(wait(parts, commit(parts, {})));
  return write_headers(parts);
}

Status Slab::write_headers(EngineParts& parts) {
  for (std::size_t path = 0; path < files_.paths(); ++path) {
    header_.index = path;
    const std::vector<std::byte> bytes = serialize(header_);
    std::memcpy(memory().data(), bytes.data(), bytes.size());
    const Piece front = files_.front(path);
    HEADRACE_TRY(
        wait(parts, front.queue->write(*front.file, 0, memory().first(parts.nvme_alignment()),
                                       committed_, {.owner = parts.owner})));
  }
  return {};
}

Result<SlabHeader> Slab::read_header(EngineParts& parts, std::size_t path) {
  const Piece front = files_.front(path);
  const Bytes to = memory().first(parts.nvme_alignment());
  if (!front.file->info().existed)
    return Status(Code::unavailable, fmt::format("{} is new", name(path)));
  HEADRACE_TRY(
      wait(parts, front.queue->read(*front.file, 0, to, {}, {.owner = parts.owner, .redo = true})));
  return parse_slab_header(to, name(path));
}

Result<std::optional<CommitRecord>> Slab::read_record(EngineParts& parts, std::uint64_t place) {
  const Piece front = files_.front(0);
  const Bytes to = memory();
  const std::uint64_t at = parts.nvme_alignment() + place * to.size();
  for (int reading = 0; reading < kReadings; ++reading) {
    HEADRACE_TRY(wait(
        parts, front.queue->read(*front.file, at, to, {}, {.owner = parts.owner, .redo = true})));
    Result<CommitRecord> record =
        parse_record({reinterpret_cast<const std::uint64_t*>(to.data()), to.size() / 8}, shapes_);
    if (record.ok()) return std::optional(std::move(*record));
  }
  return std::optional<CommitRecord>();
}

// Every record is read once, and checked.
Status Slab::restore(EngineParts& parts) {
  std::vector<Event> ends;
  StepContext context = parts.context();
  parts.each_shard([&](Shard& shard) {
    Slot& slot = parts.slots[shard.id % parts.slots.size()];
    const Region record = slot.state.region().sub(0, shard.record_bytes);
    const auto read = [&](std::uint64_t begin, std::uint64_t end) {
      return context.mover.move(shard.home().sub(begin, end - begin),
                                record.sub(begin, end - begin), slot.free,
                                {.name = "restore", .check = check_of(shard, begin)});
    };
    const Event there =
        Event::all({read(0, shard.param_at), read(shard.param_at, shard.record_bytes)});
    const Event restored = context.cpu.run({.body =
                                                [&shard, record] {
                                                  restore_params(shard, record.view().data);
                                                  return Status();
                                                },
                                            .bytes = shard.spec.param_bytes,
                                            .name = "restore",
                                            .owner = context.owner},
                                           there);
    slot.free = Event::all({there.over(), restored.over()});
    shard.param_ready = context.mover.move(shard.host_param, shard.param, restored);
    shard.settled = shard.param_ready;
    ends.push_back(shard.settled);
  });
  Status first;
  for (const Event& end : ends)
    if (const Status how = wait(parts, end); first.ok()) first = how;
  return first;
}

Event Slab::commit(EngineParts& parts, const Event& changes) {
  ++sequence_;
  CommitRecord record{.sequence = sequence_, .steps = parts.steps, .skipped = parts.skipped};
  std::vector<std::shared_ptr<const BlockSums>> sums;
  parts.each_shard([&](const Shard& shard) {
    record.shards.push_back(as_committed(shard));
    sums.push_back(shard.sums[shard.generation]);
  });
  const Event filled = parts.platform.copy_lane().run(
      {.body =
           [record = std::move(record), sums = std::move(sums), shapes = shapes_,
            to = memory()]() mutable {
             for (std::size_t i = 0; i < sums.size(); ++i) {
               record.shards[i].sums = sums[i]->sums();
               record.shards[i].sums.resize(shapes[i].blocks);
               record.shards[i].stored = sums[i]->noted();
             }
             const std::vector<std::uint64_t> words = serialize(record);
             std::memcpy(to.data(), words.data(), words.size() * sizeof(words[0]));
             return Status();
           },
       .bytes = memory().size(),
       .name = "commit",
       .owner = parts.owner},
      Event::all({changes, committed_}));
  committed_ = write_record(parts, filled);
  while (commits_.size() > 1 && commits_[1].written.done() && commits_[1].written.status().ok())
    commits_.pop_front();
  commits_.push_back({sequence_, committed_, parts.generations()});
  return committed_;
}

Event Slab::write_record(EngineParts& parts, const Event& filled) {
  const Piece front = files_.front(0);
  const std::uint64_t at = parts.nvme_alignment() + sequence_ % 2 * memory().size();
  return front.queue->write(*front.file, at, memory(), filled,
                            {.owner = parts.owner, .name = "commit", .redo = true});
}

void Slab::roll_back(EngineParts& parts) {
  while (commits_.size() > 1 &&
         !(commits_.back().written.done() && commits_.back().written.status().ok()))
    commits_.pop_back();
  sequence_ = commits_.back().sequence;
  committed_ = committed_.over();
  std::size_t next = 0;
  parts.each_shard([&](Shard& shard) {
    shard.generation = commits_.back().generations[next++];
    shard.changed_in = 0;
  });
}

Status Slab::wait(EngineParts& parts, const Event& event) const {
  return parts.platform.wait(event, parts.options.deadline);
}

std::string Slab::name(std::size_t path) const { return files_.info(path).name; }

Status name_owner(EngineParts& parts, const Status& locked) {
  for (const std::filesystem::path& folder : parts.options.nvme_paths) {
    const auto queue = parts.platform.queue_for(folder);
    if (!queue.ok()) continue;
    const auto file = (*queue)->open_file(
        {.path = folder / kSlabName, .mode = FileMode::read_only, .direct = false});
    const auto bytes = std::make_shared<std::vector<std::byte>>(kSlabHeaderBytes);
    if (!file.ok() || file->info().size < bytes->size()) continue;
    const Event read =
        (*queue)->read(*file, 0, *bytes, {}, {.check = [bytes](std::uint64_t, ConstBytes) {
          return Status();  // and the memory lives until then
        }});
    if (!parts.platform.wait(read, parts.options.deadline).ok()) continue;
    if (const auto header = parse_slab_header(*bytes, kSlabName); header.ok())
      return Status(Code::locked, fmt::format("{}: the slab was opened by process {}",
                                              locked.message(), header->pid));
  }
  return locked;
}

}  // namespace headrace
