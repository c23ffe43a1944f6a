// `headrace plan`: what goes where for a model's size and the budgets, why, and what a step will
// take: a dry run of the real step (bench/training.h) through a real Engine on a simulated machine
// of the rates given. No model is called, no memory is backed.
//
// Forward and backward are assumed to run on a device, sharing no core with the update.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "bench/training.h"
#include "io/status.h"
#include "runtime/stats.h"

namespace headrace::cli {

struct PlanOptions {
  std::uint64_t parameters = 0;
  unsigned units = 32;
  StateFormat format = StateFormat::split;
  std::uint64_t dram_bytes = 0;   // for state; 0: as much as it takes
  std::uint64_t hbm_bytes = 0;    // for state
  std::uint64_t shard_bytes = 0;  // 0: the engine's choice
  int slots = 4;
  unsigned micro_batches = 1;
  // Seconds of a micro-batch; else 2 (backward 4) x parameters x tokens / flops
  std::optional<double> forward = {}, backward = {};
  double tokens = 8192;
  double flops = 100e12;
  // The machine, in bytes per second; 0 for mixed: one server for reads and writes
  std::uint64_t nvme_read = 3'000'000'000, nvme_write = 2'500'000'000, nvme_mixed = 0;
  std::uint64_t update = 20'000'000'000;                // memory traffic of the optimizer
  std::uint64_t rated_endurance = 600'000'000'000'000;  // bytes that the drives may be written
  std::filesystem::path measure = {};  // a folder: its disk's rates and this CPU's count instead
  std::filesystem::path json = {};     // written there in addition; "-": to standard output instead
};

// What a step needs longest, of the things that are busy during it.
struct Limit {
  std::string resource;  // "compute", or as in Stats: "nvme0", "optimizer"
  double busy = 0;       // share of the step
};

struct PlanReport {
  PlanOptions options;  // with what was measured
  Stats stats;          // of the engine, at rest
  bench::StepParts parts;
  double step_seconds = 0;  // of the dry run
  double best_seconds = 0;  // of the formula
  double hidden = 1;        // share of the update that took no time
  Limit limit;
  std::uint64_t read_bytes = 0, written_bytes = 0;  // on NVMe, in a step
  // What would hide the update: this share of the state in DRAM, so many bytes with the slots, and
  // the step that the dry run gives then.
  double hiding_share = 0;
  std::uint64_t hiding_bytes = 0;
  double hiding_seconds = 0;
  Limit hiding_limit;
};

// Bytes written to NVMe, training without a pause; days until what the drives may be written is.
double written_a_day(const PlanReport& report);
double days_of_endurance(const PlanReport& report);

// Code::invalid for options out of range; out_of_memory when the budgets cannot work.
Result<PlanReport> make_plan(const PlanOptions& options);

std::string text_of(const PlanReport& report);
// {"schema": "headrace.plan/1", "version", "model", "machine", "placement", "bytes", "step",
//  "hiding", "nvme"}
std::string json_of(const PlanReport& report);

// The exit code: 0, or 2 for usage, 3 when the budgets cannot work.
int run_plan(const PlanOptions& options);

}  // namespace headrace::cli
