// Placement: which tier each shard's state lives in, and why. A pure function of sizes and budgets:
// no I/O, no clock, nothing allocated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/status.h"
#include "runtime/options.h"
#include "tiers/tier.h"

namespace headrace {

// What placement needs to know of a shard, in the order of the next forward.
struct ShardNeed {
  std::uint64_t state_bytes = 0;  // as it is moved: a multiple of the tiers' alignment
};

// As in EngineOptions.
struct Budgets {
  StateHome state = StateHome::automatic;
  std::uint64_t dram_bytes = 0;
  std::uint64_t hbm_bytes = 0;
  std::uint64_t nvme_bytes = 0;
  bool has_nvme = false;
  int slots = 4;
  std::uint64_t generations = 1;  // places of each shard on NVMe; with 2, all state lives there
};

struct Plan {
  std::vector<TierKind> homes;   // of each shard's state
  int slots = 0;                 // 0: no shard needs one
  std::uint64_t slot_bytes = 0;  // of one slot
  std::uint64_t dram_bytes = 0;  // state pinned in DRAM
  std::uint64_t hbm_bytes = 0;
  std::uint64_t nvme_bytes = 0;
  std::string words;  // what went where, and why
};

// Shards that the next forward needs first are the ones pinned in DRAM. Code::out_of_memory or
// out_of_space, with each term of the sum and the next step, when the budgets cannot work.
Result<Plan> place(std::span<const ShardNeed> shards, const Budgets& budgets);

// The shard size of EngineOptions::shard_bytes = 0.
std::uint64_t default_shard_bytes(std::uint64_t dram_bytes, int slots);

}  // namespace headrace
