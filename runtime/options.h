// What an engine is told when it is opened, what a tensor is, and what a step is told and reports.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/event.h"
#include "optim_cpu/adamw.h"
#include "runtime/kinds.h"

namespace headrace {

// Where the optimizer state (master, exp_avg, exp_avg_sq) lives.
enum class StateHome : std::uint8_t {
  automatic,  // DRAM as far as dram_bytes goes, then HBM, then NVMe
  dram,       // all of it
  hbm,        // all of it, on the device
  nvme,       // DRAM for what dram_bytes holds beside the slots, NVMe for the rest
};

// Where parameters live, and what a lease is. Their home is DRAM in any case.
enum class ParamHome : std::uint8_t {
  dram,      // a lease is a view of it
  hbm,       // a second copy on the device, refreshed by each step; a lease is a view of that
  streamed,  // a lease is a copy on the device, made when acquired or foreseen, dropped after
};

// What state on NVMe outlives.
enum class Durability : std::uint8_t {
  scratch,   // nothing: unnamed files, gone with the process
  reusable,  // the death of its process: named files, `headrace.slab` in each folder, hold the last
             // whole step, and seal() takes them up; refused after a reboot. Twice the space, all
             // state on NVMe; what only DRAM has of the parameters is written with it.
};

struct EngineOptions {
  StateFormat format = StateFormat::split;
  StateHome state = StateHome::automatic;
  ParamHome params = ParamHome::dram;
  // Budgets for optimizer state alone; slots come out of dram_bytes first. 0 for dram_bytes:
  // unlimited when nothing needs a slot, else just the slots. 0 for the others: none.
  std::uint64_t dram_bytes = 0;
  std::uint64_t hbm_bytes = 0;
  std::uint64_t nvme_bytes = 0;                   // 0 with nvme_paths: as much as is needed
  std::vector<std::filesystem::path> nvme_paths;  // folders; state is striped over them
  // How much of the state each path takes, in proportion: {3, 1}. Empty: scratch state of 1 GiB and
  // more is striped by what each path was measured to give, other state evenly.
  std::vector<unsigned> nvme_shares;
  std::uint32_t nvme_alignment = 0;             // 0: what the file system says
  Durability durability = Durability::scratch;  // reusable: with StateHome::nvme

  std::uint64_t shard_bytes = 0;  // of state; 0: min(32 MiB, what divides dram_bytes among slots)
  int slots = 4;                  // 2 or more
  int threads = 0;                // of the optimizer's team; 0: every CPU this process may use
  std::int64_t simd_target = 0;   // a Highway target of available_targets(); 0: the best one
  unsigned max_live_leases = 4;
  Nanoseconds deadline = std::chrono::seconds(60);  // past it the engine is POISONED
  // Warnings known when sealed, each once: no huge pages, io_uring refused, not direct.
  std::function<void(std::string_view)> on_message;
};

struct TensorSpec {
  std::string name;  // unique
  UnitId unit{0};
  GroupId group{0};
  std::uint64_t count = 0;  // elements; none is legal
  ScalarType param = ScalarType::bf16;
  ScalarType grad = ScalarType::fp32;  // the type kept; adding needs fp32
  bool trainable = true;               // false: parameters only
  // Tied weights: an earlier tensor of the same count and type, whose parameters and state this
  // one shares; their gradients add.
  std::optional<TensorId> alias_of;
};

struct StepOptions {
  std::span<const AdamW> by_group;  // one for each group in use
  double max_norm = 0;              // clips the global 2-norm of the gradients; 0: no clipping
  double grad_scale = 1;            // the loss scale: gradients are divided by it
  bool skip_non_finite = true;      // skip the step when a gradient is infinite or NaN
};

struct StepReport {
  bool applied = false;
  std::string why;  // when skipped: the tensor, the index
  std::optional<TensorId> bad_tensor;
  std::uint64_t bad_index = 0;
  double grad_norm = 0;  // of the unscaled gradients; 0 when neither clipping nor a check asked
  double clip_factor = 1;
  Event done;  // every parameter and state of the step is in its place
};

// Elements [begin, begin + count) of a tensor.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

}  // namespace headrace
