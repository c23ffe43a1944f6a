// Mover: moves bytes between two tiers that have a direct path.
//
//   hbm <-> dram, within hbm    its own streams, one up and one down
//   dram <-> dram               the platform's copy lane; a region onto itself is no work
//   dram <-> nvme               reads and writes of the tier's queues, a request per piece
//
// There is no path from hbm to nvme or within nvme: the caller moves twice, over dram of its own.
// move() never blocks and may be called from any thread (on a simulated platform, its one). The
// caller keeps both ranges until the event is over. Destroying the mover ends what has not started
// with Code::cancelled on its streams only: cancel() first, and wait.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "io/device.h"
#include "io/io_queue.h"
#include "io/platform.h"
#include "tiers/tier.h"

namespace headrace {

// Looks at finished bytes of a read from nvme, which lie `at` in the region: as IoQueue's Check. It
// is asked of each piece of a file, and in that of each 2 MiB.
using RegionCheck = std::function<Status(std::uint64_t at, ConstBytes)>;

struct MoveTag {
  IoClass io_class = IoClass::state_read;  // of reads from nvme
  const char* name = nullptr;  // a literal, for the trace of lanes and queues; null: what it does
  RegionCheck check;           // of reads from nvme
  bool redo = false;           // on nvme: once more when it fails, while the memory is still there
};

class Mover {
 public:
  // `owner` is whose work cancel() ends; `name` goes in front of its streams' names.
  Mover(Platform& platform, Owner owner, const std::string& name = "step");

  // Copies the bytes of `from` to `to`. Code::invalid for unequal sizes and where there is no path.
  // Zero bytes, and a region onto itself, only follow `after`.
  Event move(const Region& from, const Region& to, Event after = {}, MoveTag tag = {});
  // Ends what this owner has queued and what has not started with Code::cancelled.
  void cancel();

  // Of all moves queued so far, those that failed or were skipped too.
  std::uint64_t bytes(TierKind from, TierKind to) const noexcept;
  std::vector<Usage> usage() const;  // of the two streams

 private:
  Event read(const Region& from, MemView to, const Event& after, const MoveTag& tag);
  Event write(MemView from, const Region& to, const Event& after, const MoveTag& tag);
  Event copy(MemView from, MemView to, Event after, const MoveTag& tag);
  void remember(IoQueue& queue);

  Platform& platform_;
  const Owner owner_;
  const std::unique_ptr<Stream> up_;
  const std::unique_ptr<Stream> down_;
  std::mutex mutex_;
  std::set<IoQueue*> queues_;  // guarded by mutex_: what cancel() must reach
  std::array<std::array<std::atomic<std::uint64_t>, kTierKinds>, kTierKinds> bytes_{};
};

}  // namespace headrace
