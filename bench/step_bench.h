// `bench step`: a step with its state on NVMe, alone, beside what the raw disk would take for the
// same bytes in the same minute: max(read/R, written/W, (read + written)/D), with R, W, D the
// disk's rates for reads, writes and both mixed, measured in every round by RawDisk. Call it from
// one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "bench/report.h"
#include "bench/round_watch.h"
#include "io/bytes.h"
#include "io/status.h"
#include "optim_cpu/state_format.h"

namespace headrace::bench {

struct StepBenchOptions {
  std::filesystem::path folder;  // where the state and the raw file lie; must exist
  std::vector<StateFormat> formats{StateFormat::fp32, StateFormat::split};
  std::uint64_t state_bytes = kGiB;
  std::uint64_t dram_bytes = 96 * kMiB;  // for state: slots, then pinned shards
  double dram_share = 0;                 // of the state: as much more DRAM, 0 to 1
  std::uint64_t shard_bytes = 0;         // 0: the engine's choice
  unsigned units = 24;
  int slots = 4;
  int threads = 0;          // of the optimizer's team; 0: all
  double max_norm = 1;      // clipping; 0: none
  std::size_t rounds = 12;  // of each format
  std::size_t saves = 8;    // of each format, and no more than rounds; 0: no checkpoint is written
  std::uint64_t raw_file_bytes = kGiB;
  std::uint64_t raw_bytes = 512 * kMiB;  // of one sample of R, W or D
  std::filesystem::path trace;           // a Chrome trace of all steps goes there; empty: none
  bool timeline = false;                 // of the last step of each format, in the report
  RoundWatch watch = {};
};

// About ten seconds.
StepBenchOptions quick_step_bench();

// For each format the rows step.F (seconds), gradients.F (seconds that setting them took before, no
// bound), bytes.F (bytes per padded parameter on NVMe and step, beside what the format needs),
// save.F (seconds of a checkpoint, beside the raw disk for the same bytes, read and written; it
// replaces one of the same size; not without saves), memory.F (growth of resident memory from just
// before the engine is opened to its peak, beside the sum of the engine's own stats) and
// memory.F.needed (the same beside slots, pinned state, parameters and gradients alone). With a
// share in DRAM also disk.beside_update: the raw disk, mixed, while one thread reads and writes
// memory as an update does, beside the disk alone: where that is slower, so is a step with a share
// in DRAM, and step.F's bound does not know. Notes say where the bytes lived, and what makes a row
// doubtful.
Result<Report> bench_step(const StepBenchOptions& options);

// Raw rates of a disk, in bytes per second, and the least seconds for so many bytes.
struct RawRates {
  double read = 0;
  double write = 0;
  double mixed = 0;
};
double least_seconds(const RawRates& rates, std::uint64_t read_bytes, std::uint64_t written_bytes);

}  // namespace headrace::bench
