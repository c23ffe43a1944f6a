// Slab: what makes state on NVMe reusable: it survives the death of its process.
//
// Each shard has two places, its generations. A change is stored to the one that the last commit
// does not name; when a whole step (or write, or load) is stored, a commit record is written that
// names the new ones. Records alternate between two places of their own. So at any moment one whole
// record names state that nothing has touched since, and opening the same model again takes it up.
// Parameters that only DRAM holds (split's high halves, fp32 and frozen parameters) are stored with
// their shard. Nothing is synced: after a reboot it is refused, what survives that is a checkpoint.
//
// Queueing calls (commit, roll_back) with the engine's mutex held; open() blocks.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "io/event.h"
#include "runtime/slab_format.h"
#include "tiers/stripes.h"
#include "tiers/tier.h"

namespace headrace {

struct EngineParts;

class Slab {
 public:
  // What the files of the tier need in front of the shards; once the layout is known.
  static std::uint64_t front_bytes(const EngineParts& parts);
  static std::uint64_t buffer_bytes(const EngineParts& parts);  // of DRAM, for records
  // Of shards that have their homes. Begins a new slab, or takes up one of the same model: steps,
  // counters, checksums and generations, and the parameters in DRAM. Code::invalid: another model;
  // Code::unavailable: of before a reboot; Code::corrupt, naming shard and block.
  static Result<std::unique_ptr<Slab>> open(EngineParts& parts);

  bool reopened() const noexcept { return reopened_; }
  // Over when a place that the record before names may be written over.
  const Event& committed() const noexcept { return committed_; }
  // The number of the change that is being queued, from 1 on.
  std::uint64_t change() const noexcept { return sequence_ + 1; }
  // Queues the record of what is queued so far, when `changes` are over, well.
  Event commit(EngineParts& parts, const Event& changes);
  // After a failure: every shard is again where the last whole record says.
  void roll_back(EngineParts& parts);

 private:
  struct Commit {
    std::uint64_t sequence;
    Event written;
    std::vector<unsigned> generations;
  };
  Slab(EngineParts& parts, Extent buffer);
  Status begin(EngineParts& parts);
  Status take_up(EngineParts& parts, std::span<const SlabHeader> headers);
  Status check_headers(std::span<const SlabHeader> headers) const;
  Status write_headers(EngineParts& parts);
  Result<SlabHeader> read_header(EngineParts& parts, std::size_t path);
  // None: no whole one is there. A failure says nothing of what is there.
  Result<std::optional<CommitRecord>> read_record(EngineParts& parts, std::uint64_t place);
  Status restore(EngineParts& parts);
  Event write_record(EngineParts& parts, const Event& filled);
  Status wait(EngineParts& parts, const Event& event) const;
  std::string name(std::size_t path) const;
  Bytes memory() const { return buffer_.region().view().bytes(); }

  const Stripes& files_;
  const Extent buffer_;  // of one record, or a header
  std::vector<ShardShape> shapes_;
  SlabHeader header_;
  bool reopened_ = false;
  std::uint64_t sequence_ = 0;  // of the last record queued
  Event committed_;
  std::deque<Commit> commits_;  // the last ones; the first of them is known to be whole
};

// With two processes' slabs in one folder: `locked`, with the process that has it.
Status name_owner(EngineParts& parts, const Status& locked);

}  // namespace headrace
