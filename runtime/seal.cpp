#include "runtime/seal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "io/bytes.h"
#include "runtime/checkpoint.h"
#include "runtime/close.h"
#include "tiers/path_rates.h"

namespace headrace {
namespace {

constexpr std::uint64_t kDefaultAlignment = 4096;

bool reusable(const EngineOptions& options) { return options.durability == Durability::reusable; }

Budgets budgets_of(const EngineOptions& options) {
  return {.state = options.state,
          .dram_bytes = options.dram_bytes,
          .hbm_bytes = options.hbm_bytes,
          .nvme_bytes = options.nvme_bytes,
          .has_nvme = !options.nvme_paths.empty(),
          .slots = options.slots,
          .generations = reusable(options) ? std::uint64_t{2} : std::uint64_t{1}};
}

// One place of a shard.
struct Record {
  std::uint64_t bytes = 0;
  std::uint64_t param_at = 0;
  std::uint64_t kept_param_bytes = 0;
};

Record record_of(const ShardSpec& shard, const EngineOptions& options, std::uint64_t alignment) {
  Record record;
  record.param_at = round_up(shard.state_bytes, alignment);
  const bool derived = shard.layout == StateLayout::fp32 && shard.state_bytes > 0;
  if (reusable(options) && !derived) record.kept_param_bytes = shard.param_bytes;
  record.bytes = record.param_at + round_up(record.kept_param_bytes, alignment);
  return record;
}

Status make_plan(EngineParts& parts) {
  const EngineOptions& options = parts.options;
  const std::uint64_t shard_bytes = options.shard_bytes > 0
                                        ? options.shard_bytes
                                        : default_shard_bytes(options.dram_bytes, options.slots);
  parts.layout = lay_out(parts.tensors, options.format, shard_bytes);
  const std::uint64_t alignment = parts.nvme_alignment();
  std::vector<ShardNeed> needs;
  for (const ShardSpec& shard : parts.layout.shards)
    needs.push_back({record_of(shard, options, alignment).bytes});
  if (reusable(options))
    for (const ShardSpec& piece : parts.layout.frozen)
      needs.push_back({record_of(piece, options, alignment).bytes});
  HEADRACE_ASSIGN(parts.plan, place(needs, budgets_of(options)));
  parts.leases = std::make_unique<ParamCache>(options.params, options.max_live_leases, parts.layout,
                                              parts.tensors);
  return {};
}

// Of the leases, on the device.
std::uint64_t lease_slots(const EngineParts& parts) { return parts.options.max_live_leases + 1; }

std::uint64_t lease_bytes(const EngineParts& parts) {
  const ParamHome home = parts.options.params;
  if (home == ParamHome::dram) return 0;
  return home == ParamHome::hbm
             ? parts.layout.param_bytes
             : lease_slots(parts) * round_up(parts.leases->slot_bytes(), kDefaultAlignment);
}

// Before anything is allocated: what the machine does not have would end in a killed process.
Status check_memory(const EngineParts& parts) {
  if (parts.platform.simulated()) return {};  // its budgets refuse
  const std::uint64_t state = parts.plan.dram_bytes + parts.plan.hbm_bytes;
  const std::uint64_t slots = static_cast<std::uint64_t>(parts.plan.slots) * parts.plan.slot_bytes;
  const std::uint64_t params = parts.layout.param_bytes + lease_bytes(parts);
  const std::uint64_t staging =
      kStagingBlocks * kStagingBytes + (reusable(parts.options) ? Slab::buffer_bytes(parts) : 0);
  const std::uint64_t need = state + slots + params + parts.layout.grad_bytes + staging;
  const MemoryLeft left = parts.platform.memory_left();
  if (need <= left.bytes) return {};
  return Status(
      Code::out_of_memory,
      fmt::format("{} of memory are needed (state {}, slots {}, parameters {}, gradients {}, "
                  "checkpoints {}), and {} leaves {}: keep more of the state on NVMe, free "
                  "some memory, or raise the limit",
                  format_bytes(need), format_bytes(state), format_bytes(slots),
                  format_bytes(params), format_bytes(parts.layout.grad_bytes),
                  format_bytes(staging), left.set_by, format_bytes(left.bytes)));
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

// How the paths share the state, as asked for, or as they were measured where that is worth it: a
// reusable slab must be found again where it was.
Result<std::vector<unsigned>> shares_of_paths(EngineParts& parts, const NvmeOptions& files) {
  constexpr std::uint64_t kMeasuredFrom = kGiB, kProbeBytes = 16 * kMiB;
  const EngineOptions& options = parts.options;
  const bool measured = options.nvme_shares.empty() && options.nvme_paths.size() > 1 &&
                        !reusable(options) && parts.plan.nvme_bytes >= kMeasuredFrom;
  if (!measured) return options.nvme_shares;
  HEADRACE_ASSIGN(
      const std::vector<double> rates,
      measure_paths(parts.platform, options.nvme_paths, files, kProbeBytes, options.deadline));
  std::vector<unsigned> shares = headrace::shares_of(rates);
  std::string gave;
  for (const double rate : rates)
    gave += fmt::format("{}{:.2f}", gave.empty() ? "" : ", ", rate / 1e9);
  parts.plan.words += fmt::format(", in shares of {} on the paths, which gave {} GB/s",
                                  fmt::join(shares, ":"), gave);
  return shares;
}

Status make_nvme(EngineParts& parts) {
  const EngineOptions& options = parts.options;
  if (parts.plan.nvme_bytes == 0) return {};
  NvmeOptions files{.alignment = options.nvme_alignment};
  if (reusable(options)) {
    files.file_name = kSlabName;
    files.front_bytes = Slab::front_bytes(parts);
  }
  HEADRACE_ASSIGN(files.shares, shares_of_paths(parts, files));
  Result<std::unique_ptr<Tier>> tier =
      Tier::nvme(parts.platform, options.nvme_paths, parts.plan.nvme_bytes, files);
  if (tier.status().code() == Code::locked) return name_owner(parts, tier.status());
  HEADRACE_ASSIGN(parts.tiers.nvme, std::move(tier));
  if (parts.tiers.nvme->alignment() > parts.nvme_alignment())
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
  if (reusable(parts.options) && tiers.nvme)
    HEADRACE_TRY(make_tier(platform, TierKind::dram, Slab::buffer_bytes(parts), tiers.slab,
                           "commit records"));
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
  Tier* tier = nullptr;
  if (home != ParamHome::dram) {
    HEADRACE_TRY(make_tier(parts.platform, TierKind::hbm, lease_bytes(parts),
                           parts.tiers.device_params, "parameters on the device"));
    tier = parts.tiers.device_params.get();
  }
  if (tier == nullptr) return {};
  if (home == ParamHome::hbm) {
    HEADRACE_ASSIGN(parts.device_param_memory, tier->allocate(parts.layout.param_bytes));
    return {};
  }
  std::vector<LeaseSlot> made;
  for (std::uint64_t i = 0; i < lease_slots(parts); ++i) {
    made.emplace_back();
    HEADRACE_ASSIGN(made.back().memory, tier->allocate(parts.leases->slot_bytes()));
  }
  parts.leases->give_slots(std::move(made));
  return {};
}

void make_sums(Shard& shard, std::string name, unsigned generations) {
  for (unsigned generation = 0; generation < generations; ++generation)
    shard.sums[generation] = std::make_shared<BlockSums>(
        name, shard.state.region().sub(generation * shard.record_bytes, shard.record_bytes),
        shard.param_at);
}

// On NVMe, of a reusable slab: two places, with the parameters where only DRAM has them.
Status give_home(EngineParts& parts, Shard& shard, TierKind kind) {
  const bool on_nvme = kind == TierKind::nvme;
  const Record record = record_of(shard.spec, parts.options, parts.nvme_alignment());
  const unsigned generations = on_nvme && reusable(parts.options) ? 2 : 1;
  const std::uint64_t size = on_nvme ? generations * record.bytes : shard.spec.state_bytes;
  HEADRACE_ASSIGN(shard.state, home_of(parts.tiers, kind).allocate(size));
  shard.record_bytes = shard.state.region().size() / generations;
  shard.param_at = generations > 1 ? record.param_at : shard.record_bytes;
  shard.kept_param_bytes = generations > 1 ? record.kept_param_bytes : 0;
  const bool frozen = shard.spec.state_bytes == 0;
  if (on_nvme)
    make_sums(shard,
              fmt::format("{} {} (unit {})", frozen ? "frozen piece" : "shard", shard.id,
                          index_of(shard.spec.unit)),
              generations);
  return {};
}

void give_params(EngineParts& parts, Shard& shard) {
  const auto window = [&](const Extent& memory) {
    return memory.region().sub(shard.spec.param_offset, shard.spec.param_bytes);
  };
  const bool copied = parts.options.params == ParamHome::hbm;
  shard.host_param = window(parts.param_memory);
  shard.param = window(copied ? parts.device_param_memory : parts.param_memory);
}

Status make_shards(EngineParts& parts) {
  for (std::size_t i = 0; i < parts.layout.shards.size(); ++i) {
    Shard& shard = parts.shards.emplace_back();
    shard.id = static_cast<std::uint32_t>(i);
    shard.spec = parts.layout.shards[i];
    shard.in_place = parts.plan.homes[i] == TierKind::dram;
    HEADRACE_TRY(give_home(parts, shard, parts.plan.homes[i]));
    give_params(parts, shard);
  }
  return {};
}

// What a reusable slab keeps beside the shards.
Status make_frozen(EngineParts& parts) {
  if (!reusable(parts.options)) return {};
  for (const ShardSpec& spec : parts.layout.frozen) {
    Shard& piece = parts.frozen.emplace_back();
    piece.id = static_cast<std::uint32_t>(parts.shards.size() + parts.frozen.size() - 1);
    piece.spec = spec;
    HEADRACE_TRY(give_home(parts, piece, TierKind::nvme));
    give_params(parts, piece);
  }
  return {};
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
  parts.frozen.reserve(parts.layout.frozen.size());
  HEADRACE_TRY(make_memory(parts));
  HEADRACE_TRY(make_leases(parts));
  HEADRACE_TRY(make_shards(parts));
  HEADRACE_TRY(make_frozen(parts));
  HEADRACE_TRY(register_slots(parts));
  if (!parts.tiers.slab) return {};
  Result<std::unique_ptr<Slab>> slab = Slab::open(parts);
  if (slab.status().code() == Code::timeout) parts.tiers.slab->abandon();  // still in use
  HEADRACE_ASSIGN(parts.slab, std::move(slab));
  return {};
}

}  // namespace

Status seal(EngineParts& parts) {
  HEADRACE_TRY(make_plan(parts));
  parts.cpu = &parts.platform.optimizer_lane();
  parts.team = {.threads = parts.options.threads > 0 ? parts.options.threads : affinity_threads(),
                .target = parts.options.simd_target};
  Status made = check_memory(parts);
  if (made.ok()) made = allocate(parts);
  if (!made.ok()) undo_seal(parts);
  return made;
}

}  // namespace headrace
