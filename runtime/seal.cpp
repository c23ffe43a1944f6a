#include "runtime/seal.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/bytes.h"
#include "runtime/checkpoint.h"

namespace headrace {
namespace {

constexpr std::uint64_t kDefaultAlignment = 4096;

Budgets budgets_of(const EngineOptions& options) {
  return {.state = options.state,
          .dram_bytes = options.dram_bytes,
          .hbm_bytes = options.hbm_bytes,
          .nvme_bytes = options.nvme_bytes,
          .has_nvme = !options.nvme_paths.empty(),
          .slots = options.slots};
}

Status make_plan(EngineParts& parts) {
  const EngineOptions& options = parts.options;
  const std::uint64_t shard_bytes = options.shard_bytes > 0
                                        ? options.shard_bytes
                                        : default_shard_bytes(options.dram_bytes, options.slots);
  parts.layout = lay_out(parts.tensors, options.format, shard_bytes);
  const std::uint64_t alignment =
      std::max<std::uint64_t>(kDefaultAlignment, options.nvme_alignment);
  std::vector<ShardNeed> needs;
  for (const ShardSpec& shard : parts.layout.shards)
    needs.push_back({round_up(shard.state_bytes, alignment)});
  HEADRACE_ASSIGN(parts.plan, place(needs, budgets_of(options)));
  return {};
}

// A DRAM or HBM tier of this size; none when there is nothing to hold.
Status make_tier(Platform& platform, TierKind kind, std::uint64_t bytes,
                 std::unique_ptr<Tier>& tier, std::string_view what) {
  if (bytes == 0) return {};
  auto made = kind == TierKind::hbm ? Tier::hbm(platform, bytes) : Tier::dram(platform, bytes, -1);
  if (!made.ok()) return made.status().with(what);
  tier = std::move(made).value();
  return {};
}

Status make_nvme(EngineParts& parts) {
  const EngineOptions& options = parts.options;
  if (parts.plan.nvme_bytes == 0) return {};
  HEADRACE_ASSIGN(parts.tiers.nvme,
                  Tier::nvme(parts.platform, options.nvme_paths, parts.plan.nvme_bytes,
                             {.alignment = options.nvme_alignment}));
  const std::uint64_t planned = std::max<std::uint64_t>(kDefaultAlignment, options.nvme_alignment);
  if (parts.tiers.nvme->alignment() > planned)
    return Status(Code::invalid,
                  fmt::format("the file system of {} needs transfers aligned to {}: set "
                              "nvme_alignment to it",
                              options.nvme_paths.front().string(), parts.tiers.nvme->alignment()));
  if (!parts.tiers.nvme->direct())
    parts.platform.say(
        fmt::format("{} cannot bypass the page cache: state there costs memory "
                    "twice; use a folder on ext4 or xfs",
                    options.nvme_paths.front().string()));
  return {};
}

Status make_tiers(EngineParts& parts) {
  Platform& platform = parts.platform;
  const Plan& plan = parts.plan;
  EngineTiers& tiers = parts.tiers;
  const std::uint64_t slots = static_cast<std::uint64_t>(plan.slots) * plan.slot_bytes;
  HEADRACE_TRY(make_nvme(parts));
  HEADRACE_TRY(make_tier(platform, TierKind::dram, slots, tiers.slots, "slots"));
  HEADRACE_TRY(make_tier(platform, TierKind::dram, plan.dram_bytes, tiers.dram, "state"));
  HEADRACE_TRY(make_tier(platform, TierKind::hbm, plan.hbm_bytes, tiers.hbm, "state"));
  HEADRACE_TRY(
      make_tier(platform, TierKind::dram, parts.layout.param_bytes, tiers.params, "parameters"));
  HEADRACE_TRY(
      make_tier(platform, TierKind::dram, parts.layout.grad_bytes, tiers.gradients, "gradients"));
  return make_tier(platform, TierKind::dram, kStagingBlocks * kStagingBytes, tiers.staging,
                   "checkpoint blocks");
}

Tier& home_of(EngineTiers& tiers, TierKind kind) {
  return kind == TierKind::dram ? *tiers.dram : kind == TierKind::hbm ? *tiers.hbm : *tiers.nvme;
}

std::uint64_t slot_alignment(const EngineParts& parts) {
  return parts.tiers.nvme ? std::max(kDefaultAlignment, parts.tiers.nvme->alignment())
                          : kDefaultAlignment;
}

Status make_memory(EngineParts& parts) {
  EngineTiers& tiers = parts.tiers;
  if (tiers.params) {
    HEADRACE_ASSIGN(parts.param_memory, tiers.params->allocate(parts.layout.param_bytes));
  }
  MemView gradients;
  if (tiers.gradients) {
    HEADRACE_ASSIGN(parts.gradient_memory, tiers.gradients->allocate(parts.layout.grad_bytes));
    gradients = parts.gradient_memory.region().view();
  }
  parts.gradients = std::make_unique<Gradients>(parts.tensors, parts.layout, gradients);
  for (std::uint64_t i = 0; i < kStagingBlocks; ++i) {
    parts.staging.emplace_back();
    HEADRACE_ASSIGN(parts.staging.back().state, tiers.staging->allocate(kStagingBytes));
  }
  for (int i = 0; i < parts.plan.slots; ++i) {
    parts.slots.emplace_back();
    HEADRACE_ASSIGN(parts.slots.back().state,
                    tiers.slots->allocate_aligned(parts.plan.slot_bytes, slot_alignment(parts)));
  }
  return {};
}

Status make_leases(EngineParts& parts) {
  const ParamHome home = parts.options.params;
  parts.leases = std::make_unique<ParamCache>(home, parts.options.max_live_leases, parts.layout,
                                              parts.tensors);
  Tier* tier = nullptr;
  const std::uint64_t slots = parts.options.max_live_leases + 1;
  const std::uint64_t slot_bytes = round_up(parts.leases->slot_bytes(), kDefaultAlignment);
  if (home != ParamHome::dram) {
    const std::uint64_t bytes =
        home == ParamHome::hbm ? parts.layout.param_bytes : slots * slot_bytes;
    HEADRACE_TRY(make_tier(parts.platform, TierKind::hbm, bytes, parts.tiers.device_params,
                           "parameters on the device"));
    tier = parts.tiers.device_params.get();
  }
  if (tier == nullptr) return {};
  if (home == ParamHome::hbm) {
    HEADRACE_ASSIGN(parts.device_param_memory, tier->allocate(parts.layout.param_bytes));
    return {};
  }
  std::vector<LeaseSlot> made;
  for (std::uint64_t i = 0; i < slots; ++i) {
    made.emplace_back();
    HEADRACE_ASSIGN(made.back().memory, tier->allocate(slot_bytes));
  }
  parts.leases->give_slots(std::move(made));
  return {};
}

Status make_shards(EngineParts& parts) {
  const Region params = parts.param_memory.region();
  for (std::size_t i = 0; i < parts.layout.shards.size(); ++i) {
    Shard& shard = parts.shards.emplace_back();
    shard.id = static_cast<std::uint32_t>(i);
    shard.spec = parts.layout.shards[i];
    shard.in_place = parts.plan.homes[i] == TierKind::dram;
    HEADRACE_ASSIGN(shard.state,
                    home_of(parts.tiers, parts.plan.homes[i]).allocate(shard.spec.state_bytes));
    if (shard.state.region().tier().kind() == TierKind::nvme)
      shard.sums = std::make_shared<BlockSums>(
          fmt::format("shard {} (unit {})", i, index_of(shard.spec.unit)), shard.state.region());
    shard.host_param = params.sub(shard.spec.param_offset, shard.spec.param_bytes);
    shard.param = parts.options.params == ParamHome::hbm
                      ? parts.device_param_memory.region().sub(shard.spec.param_offset,
                                                               shard.spec.param_bytes)
                      : shard.host_param;
  }
  return {};
}

void let_go(EngineParts& parts) {
  parts.leases.reset();
  parts.gradients.reset();
  parts.shards.clear();
  parts.slots.clear();
  parts.staging.clear();
  parts.mover.reset();
  parts.param_memory = {};
  parts.device_param_memory = {};
  parts.gradient_memory = {};
  parts.tiers = {};
}

// Always tried, never required: a queue that cannot says why, and is only a little dearer.
Status register_slots(EngineParts& parts) {
  if (!parts.tiers.nvme || !parts.tiers.slots) return {};
  std::vector<IoQueue*> queues;
  for (const std::filesystem::path& folder : parts.options.nvme_paths) {
    HEADRACE_ASSIGN(IoQueue * queue, parts.platform.queue_for(folder));
    if (std::find(queues.begin(), queues.end(), queue) != queues.end()) continue;
    queues.push_back(queue);
    const Status how =
        parts.platform.wait(parts.tiers.slots->register_with(*queue), parts.options.deadline);
    if (how.code() == Code::timeout) return how;
  }
  return {};
}

Status allocate(EngineParts& parts) {
  HEADRACE_TRY(make_tiers(parts));
  parts.mover = std::make_unique<Mover>(parts.platform, parts.owner);
  parts.shards.reserve(parts.layout.shards.size());
  HEADRACE_TRY(make_memory(parts));
  HEADRACE_TRY(make_leases(parts));
  HEADRACE_TRY(make_shards(parts));
  return register_slots(parts);
}

}  // namespace

Status seal(EngineParts& parts) {
  HEADRACE_TRY(make_plan(parts));
  parts.cpu = &parts.platform.optimizer_lane();
  parts.team = {.threads = parts.options.threads > 0 ? parts.options.threads : affinity_threads(),
                .target = parts.options.simd_target};
  const Status made = allocate(parts);
  if (!made.ok()) let_go(parts);
  return made;
}

Status tear_down(EngineParts& parts, Nanoseconds timeout) {
  if (!parts.mover) return {};
  parts.cpu->cancel(parts.owner);
  parts.mover->cancel();
  const Event idle = parts.cpu->run({.body = {}, .name = "close"});  // behind whatever is running
  const Event quiet = Event::all({parts.all_settled(), idle}).over();
  const Status how = parts.platform.wait(quiet, timeout);
  if (!quiet.done())
    for (const auto* tier : {&parts.tiers.slots, &parts.tiers.dram, &parts.tiers.hbm,
                             &parts.tiers.nvme, &parts.tiers.params, &parts.tiers.device_params,
                             &parts.tiers.gradients, &parts.tiers.staging})
      if (*tier) (*tier)->abandon();
  let_go(parts);
  return how;
}

}  // namespace headrace
