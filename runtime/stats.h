// What an engine holds, has moved, and waited for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/usage.h"

namespace headrace {

// Bytes held, by what for. Sums of what was allocated, padding included.
struct HeldBytes {
  std::uint64_t slots = 0;          // DRAM that state passes through
  std::uint64_t dram_state = 0;     // state pinned in DRAM
  std::uint64_t hbm_state = 0;      // state on the device
  std::uint64_t nvme_state = 0;     // state in files
  std::uint64_t params = 0;         // in DRAM
  std::uint64_t device_params = 0;  // copies on the device, or the slots of streamed leases
  std::uint64_t gradients = 0;      // in DRAM
  std::uint64_t staging = 0;        // for checkpoints
  std::uint64_t dram() const { return slots + dram_state + params + gradients + staging; }
};

struct Stats {
  std::uint64_t parameters = 0;         // trainable elements, aliases not counted
  std::uint64_t padded_parameters = 0;  // the same as shards hold them
  std::uint64_t nvme_parameters = 0;    // of the padded ones, those whose state is on NVMe
  std::uint64_t shards = 0;
  std::uint64_t nvme_shards = 0;
  std::uint64_t steps = 0;  // applied
  std::uint64_t skipped_steps = 0;
  bool reopened = false;  // seal() took up what an earlier process left (Durability::reusable)
  HeldBytes held;
  std::uint64_t nvme_read_bytes = 0;     // of state, since seal
  std::uint64_t nvme_written_bytes = 0;  // of state, since seal
  std::string placement;                 // the plan in words
  std::vector<Usage> resources;          // lanes, queues, streams: busy, stalled, waiting for whom
};

}  // namespace headrace
