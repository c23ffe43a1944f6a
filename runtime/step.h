// The step: queues the update of every shard, and never blocks.
//
// Called with the engine's mutex held. The loop is update_all(); everything else it needs is here
// too: load() fills a slot, store() is what follows a change, whoever made it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "io/lane.h"
#include "optim_cpu/team.h"
#include "runtime/gradients.h"
#include "runtime/shard.h"
#include "tiers/mover.h"

namespace headrace {

// What a step needs of the engine.
struct StepContext {
  Mover& mover;
  Lane& cpu;
  Owner owner;
  Team team;
  // Of a reusable slab: the number of the change that is queued, and when it may store.
  std::uint64_t change = 0;  // 0: not reusable
  Event committed = {};
};

// Everything a step multiplies with, known once the norm is.
struct StepScalars {
  std::span<const AdamW> by_group;
  double grad_factor = 1;
};

// Looks at what is read of the shard's home on NVMe, from `begin` on.
RegionCheck check_of(const Shard& shard, std::uint64_t begin = 0);

// Reads `part` of the shard's home, whole blocks of it, to `to`.
Event read_home(const Shard& shard, const BlockSums::Run& part, const Region& to,
                const Event& after, StepContext& context);

// Reads the shard's state into the slot; also called for the first slots when a step's first
// gradient arrives.
void load(Shard& shard, Slot& slot, StepContext& context);

// Queues what follows a change of the shard's state in `slot` (or, null, in place) by `changed`:
// parameters to where they are computed with, state to its home; of a reusable slab, to the place
// that the last commit does not name.
void store(Shard& shard, Slot* slot, const Event& changed, StepContext& context);

// The slot that holds the shard's state; when none does, it is loaded into one.
Slot& slot_of(Shard& shard, std::span<Slot> slots, StepContext& context);

// The order in which the updates of shards, given in that of the next forward, are queued: those
// first that lie in a slot, so that drives have something to do, and a few in place, for the
// forward to begin with. (The others in place yield to whatever is moved.)
std::vector<Shard*> order_of_update(std::span<Shard* const> shards, std::span<const Slot> slots);

// `shards`: those with a gradient, in the order in which they are updated. Counts each segment that
// has a gradient. The event fires when every shard is settled.
Event update_all(std::span<Shard* const> shards, std::span<Slot> slots, Gradients& gradients,
                 const StepScalars& scalars, StepContext& context);

}  // namespace headrace
