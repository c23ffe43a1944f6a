// `headrace bench ...`: measures, prints the table, writes the JSON. What is measured is in bench/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "bench/step_bench.h"
#include "bench/train_bench.h"

namespace headrace::cli {

struct BenchAdamWOptions {
  bool quick = false;               // ten seconds instead of a minute
  std::filesystem::path json = {};  // written there in addition; "-": to standard output instead
};

// What is not given is as bench/ has it, or, quick, less.
struct BenchStepOptions {
  std::filesystem::path scratch = ".";
  bool train = false;
  bool quick = false;
  std::filesystem::path json = {};
  std::filesystem::path trace = {};
  std::vector<StateFormat> formats = {};  // --train takes the first
  std::optional<std::uint64_t> state_bytes = {}, dram_bytes = {}, shard_bytes = {};
  std::optional<std::uint64_t> disk_bytes_per_second = {};  // --train only
  std::optional<std::size_t> rounds = {};
  std::optional<unsigned> units = {};
  std::optional<int> slots = {};
  std::optional<double> max_norm = {};
  int threads = 0;
};
bench::StepBenchOptions step_bench_options(const BenchStepOptions& options);
bench::TrainBenchOptions train_bench_options(const BenchStepOptions& options);

// The exit code (cli/outcome.h).
int run_bench_adamw(const BenchAdamWOptions& options);
int run_bench_step(const BenchStepOptions& options);

}  // namespace headrace::cli
