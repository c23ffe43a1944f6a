#include "runtime/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "io/bytes.h"

namespace headrace {
namespace {

struct Sizes {
  std::uint64_t total = 0;
  std::uint64_t largest = 0;
};

Sizes sizes_of(std::span<const ShardNeed> shards) {
  Sizes sizes;
  for (const ShardNeed& shard : shards) {
    sizes.total += shard.state_bytes;
    sizes.largest = std::max(sizes.largest, shard.state_bytes);
  }
  return sizes;
}

Plan all_in(TierKind tier, std::span<const ShardNeed> shards) {
  Plan plan;
  plan.homes.assign(shards.size(), tier);
  return plan;
}

// A budget of 0 bytes is none given.
bool over(std::uint64_t need, std::uint64_t budget) { return budget > 0 && need > budget; }

Status too_small(const Budgets& budgets, const Sizes& sizes) {
  return Status(
      Code::out_of_memory,
      fmt::format("a DRAM budget of {} holds neither the whole state of {} nor {} slots of {} "
                  "(= {}) for it to pass through: raise the budget, or take fewer slots or a "
                  "smaller shard size",
                  format_bytes(budgets.dram_bytes), format_bytes(sizes.total), budgets.slots,
                  format_bytes(sizes.largest),
                  format_bytes(static_cast<std::uint64_t>(budgets.slots) * sizes.largest)));
}

Result<Plan> only_dram(std::span<const ShardNeed> shards, const Budgets& budgets,
                       const Sizes& sizes) {
  if (over(sizes.total, budgets.dram_bytes))
    return Status(
        Code::out_of_memory,
        fmt::format("the state of {} in {} shards does not fit a DRAM budget of {}: "
                    "raise the budget, or place state on NVMe",
                    format_bytes(sizes.total), shards.size(), format_bytes(budgets.dram_bytes)));
  return all_in(TierKind::dram, shards);
}

// Takes shards from `from` on for `tier` while they fit its room; gives the next one.
std::size_t take(Plan& plan, std::span<const ShardNeed> shards, std::size_t from, TierKind tier,
                 std::uint64_t room) {
  while (from < shards.size() && shards[from].state_bytes <= room) {
    room -= shards[from].state_bytes;
    plan.homes[from++] = tier;
  }
  return from;
}

Result<Plan> through_slots(std::span<const ShardNeed> shards, const Budgets& budgets,
                           const Sizes& sizes) {
  Plan plan = all_in(TierKind::nvme, shards);
  plan.slots = static_cast<int>(
      std::min<std::size_t>(static_cast<std::size_t>(budgets.slots), shards.size()));
  plan.slot_bytes = sizes.largest;
  const std::uint64_t slots = static_cast<std::uint64_t>(plan.slots) * plan.slot_bytes;
  if (over(slots, budgets.dram_bytes)) return too_small(budgets, sizes);
  const bool hbm_only = budgets.state == StateHome::hbm;
  const bool pins = budgets.dram_bytes > 0 && !hbm_only && budgets.generations == 1;
  const std::uint64_t room = pins ? budgets.dram_bytes - slots : 0;
  std::size_t next = take(plan, shards, 0, TierKind::dram, room);
  if (hbm_only) {
    const std::uint64_t hbm = budgets.hbm_bytes > 0 ? budgets.hbm_bytes : UINT64_MAX;
    next = take(plan, shards, next, TierKind::hbm, hbm);
  } else if (budgets.state == StateHome::automatic) {
    next = take(plan, shards, next, TierKind::hbm, budgets.hbm_bytes);
  }
  const std::uint64_t rest =
      budgets.generations *
      std::accumulate(shards.begin() + static_cast<std::ptrdiff_t>(next), shards.end(),
                      std::uint64_t{0},
                      [](std::uint64_t sum, const ShardNeed& s) { return sum + s.state_bytes; });
  if (rest > 0 && hbm_only)
    return Status(Code::out_of_memory,
                  fmt::format("the state of {} does not fit an HBM budget of {}: raise the "
                              "budget, or place state on NVMe",
                              format_bytes(sizes.total), format_bytes(budgets.hbm_bytes)));
  if (rest > 0 && !budgets.has_nvme)
    return Status(
        Code::out_of_memory,
        fmt::format("{} of {} of state fit neither DRAM ({} after {} slots of {}) nor "
                    "HBM ({}): raise a budget, or add an NVMe folder",
                    format_bytes(rest), format_bytes(sizes.total), format_bytes(room), plan.slots,
                    format_bytes(plan.slot_bytes), format_bytes(budgets.hbm_bytes)));
  if (over(rest, budgets.nvme_bytes))
    return Status(Code::out_of_space,
                  fmt::format("{} of state do not fit an NVMe budget of {}: raise the budget, or "
                              "give more DRAM",
                              format_bytes(rest), format_bytes(budgets.nvme_bytes)));
  return plan;
}

void sum_up(Plan& plan, std::span<const ShardNeed> shards, std::uint64_t generations) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::uint64_t& bytes = plan.homes[i] == TierKind::dram  ? plan.dram_bytes
                           : plan.homes[i] == TierKind::hbm ? plan.hbm_bytes
                                                            : plan.nvme_bytes;
    bytes += shards[i].state_bytes;
  }
  plan.nvme_bytes *= generations;
  if (plan.hbm_bytes + plan.nvme_bytes == 0) plan.slots = 0;  // nothing passes through them
}

std::string words_of(const Plan& plan, std::size_t shards, const Budgets& budgets) {
  const auto in_dram = std::count(plan.homes.begin(), plan.homes.end(), TierKind::dram);
  if (plan.slots == 0)
    return fmt::format("all {} of state in {} shards stay in DRAM{}: updated in place, no slots",
                       format_bytes(plan.dram_bytes), shards,
                       budgets.state == StateHome::dram ? " as asked" : ", where they fit");
  if (budgets.generations > 1)
    return fmt::format(
        "{} slots of {} in DRAM carry the state of {} shards; each has {} places on NVMe, {} in "
        "all, so that it outlives the process: nothing is pinned",
        plan.slots, format_bytes(plan.slot_bytes), shards, budgets.generations,
        format_bytes(plan.nvme_bytes));
  return fmt::format(
      "{} slots of {} in DRAM carry the state that lives elsewhere; the first {} of {} shards "
      "({}) are pinned in DRAM, since the next forward needs them first; {} on the device, {} on "
      "NVMe",
      plan.slots, format_bytes(plan.slot_bytes), in_dram, shards, format_bytes(plan.dram_bytes),
      format_bytes(plan.hbm_bytes), format_bytes(plan.nvme_bytes));
}

}  // namespace

std::uint64_t default_shard_bytes(std::uint64_t dram_bytes, int slots) {
  constexpr std::uint64_t kMost = 32 * kMiB;
  if (dram_bytes == 0) return kMost;
  return std::min(kMost, dram_bytes / static_cast<std::uint64_t>(std::max(slots, 1)));
}

Result<Plan> place(std::span<const ShardNeed> shards, const Budgets& budgets) {
  const Sizes sizes = sizes_of(shards);
  const bool dram = budgets.state == StateHome::dram ||
                    (budgets.state == StateHome::automatic &&
                     (shards.empty() || !over(sizes.total, budgets.dram_bytes)));
  Result<Plan> plan =
      dram ? only_dram(shards, budgets, sizes) : through_slots(shards, budgets, sizes);
  if (!plan.ok()) return plan.status();
  sum_up(*plan, shards, budgets.generations);
  plan->words = words_of(*plan, shards.size(), budgets);
  return plan;
}

}  // namespace headrace
