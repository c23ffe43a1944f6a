// Shard: a run of parameters on the move: where its state and parameters live, and the events that
// order everything done to them. Slot: a piece of DRAM that state passes through.
//
// Guarded by the engine's mutex; their memory is touched by queued operations only.
#pragma once

#include <array>
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
  Extent state;           // its home, on any tier; of a reusable slab, its two places
  bool in_place = false;  // the home is DRAM: updated where it lies
  Region host_param;      // its window of the parameters in DRAM
  Region param;           // what is computed with: the same, or a copy on the device

  // Of a place: the state, and from param_at on the parameters, if only DRAM has them else.
  std::uint64_t record_bytes = 0;
  std::uint64_t param_at = 0;
  std::uint64_t kept_param_bytes = 0;              // 0: they are not kept
  std::array<std::shared_ptr<BlockSums>, 2> sums;  // by generation; null but on NVMe
  unsigned generation = 0;                         // which place holds the last change
  std::uint64_t changed_in = 0;                    // the change that went there

  std::uint64_t epoch = 1;  // counts changes of the state
  Event settled;            // no one is touching state or parameters since the last change
  Event param_ready;        // the parameters hold the last change
  Event param_unused;       // every lease that has read the parameters has let go

  Region home() const { return state.region().sub(generation * record_bytes, record_bytes); }
  const std::shared_ptr<BlockSums>& home_sums() const { return sums[generation]; }
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
