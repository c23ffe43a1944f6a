// Shard: a run of parameters on the move: where its state and parameters live, and the events that
// order everything done to them. Slot: a piece of DRAM that state passes through.
//
// Guarded by the engine's mutex; their memory is touched by queued operations only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "io/event.h"
#include "runtime/block_sums.h"
#include "runtime/layout.h"
#include "tiers/tier.h"

namespace headrace {

struct Shard {
  std::uint32_t id = 0;
  ShardSpec spec;
  Extent state;                     // its home, on any tier
  bool in_place = false;            // the home is DRAM: updated where it lies
  std::shared_ptr<BlockSums> sums;  // of state on NVMe; else null
  Region host_param;                // its window of the parameters in DRAM
  Region param;                     // what is computed with: the same, or a copy on the device

  std::uint64_t epoch = 1;  // counts changes of the state
  Event settled;            // no one is touching state or parameters since the last change
  Event param_ready;        // the parameters hold the last change
  Event param_unused;       // every lease that has read the parameters has let go
};

// What a slot's bytes are: this shard's state, as of this epoch.
struct Held {
  std::uint32_t shard = 0;
  std::uint64_t epoch = 0;
  bool operator==(const Held&) const = default;
};

struct Slot {
  Extent state;
  std::optional<Held> holds;
  Event loaded;  // its contents are there
  Event free;    // its memory may be used again
};

}  // namespace headrace
