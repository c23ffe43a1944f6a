#include "runtime/stats.h"

#include "runtime/parts.h"

namespace headrace {
namespace {

std::uint64_t capacity_of(const std::unique_ptr<Tier>& tier) { return tier ? tier->capacity() : 0; }

HeldBytes held_by(const EngineTiers& tiers) {
  return {.slots = capacity_of(tiers.slots),
          .dram_state = capacity_of(tiers.dram),
          .hbm_state = capacity_of(tiers.hbm),
          .nvme_state = capacity_of(tiers.nvme),
          .params = capacity_of(tiers.params),
          .device_params = capacity_of(tiers.device_params),
          .gradients = capacity_of(tiers.gradients),
          .staging = capacity_of(tiers.staging) + capacity_of(tiers.slab)};
}

void count_shards(const EngineParts& parts, Stats& stats) {
  for (std::size_t i = 0; i < parts.shards.size(); ++i) {
    const ShardSpec& spec = parts.shards[i].spec;
    const bool on_nvme = parts.plan.homes[i] == TierKind::nvme;
    ++stats.shards;
    stats.nvme_shards += on_nvme ? 1 : 0;
    stats.padded_parameters += spec.elements;
    stats.nvme_parameters += on_nvme ? spec.elements : 0;
    for (const Segment& segment : spec.segments) stats.parameters += segment.count;
  }
}

}  // namespace

Stats stats_of(const EngineParts& parts) {
  Stats stats;
  const std::lock_guard lock(parts.mutex);
  stats.held = held_by(parts.tiers);
  stats.placement = parts.plan.words;
  stats.steps = parts.steps;
  stats.skipped_steps = parts.skipped;
  stats.reopened = parts.slab && parts.slab->reopened();
  stats.resources = parts.platform.usage();
  count_shards(parts, stats);
  if (!parts.mover) return stats;
  stats.nvme_read_bytes = parts.mover->bytes(TierKind::nvme, TierKind::dram);
  stats.nvme_written_bytes = parts.mover->bytes(TierKind::dram, TierKind::nvme);
  for (Usage& usage : parts.mover->usage()) stats.resources.push_back(std::move(usage));
  return stats;
}

}  // namespace headrace
