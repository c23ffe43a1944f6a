// `headrace bench ...`: measures, prints the table, writes the JSON and the page. What is measured
// is in bench/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "bench/adamw_bench.h"
#include "bench/all_bench.h"
#include "bench/copy_bench.h"
#include "bench/io_bench.h"
#include "bench/norm_bench.h"
#include "bench/overhead_bench.h"
#include "bench/step_bench.h"
#include "bench/train_bench.h"

namespace headrace::cli {

struct Output {
  std::filesystem::path json = {};  // written there in addition; "-": to standard output instead
  std::filesystem::path html = {};  // a page of the same, with plots; empty: none
};

// What is not given is as bench/ has it, or, quick, less.
struct BenchStepOptions {
  std::filesystem::path scratch = ".";
  bool train = false;
  bool quick = false;
  Output output = {};  // with a page, timelines are kept
  std::filesystem::path trace = {};
  std::vector<StateFormat> formats = {};  // --train takes the first
  std::optional<std::uint64_t> state_bytes = {}, dram_bytes = {}, shard_bytes = {};
  std::optional<std::uint64_t> disk_bytes_per_second = {};  // --train only
  std::optional<std::size_t> rounds = {}, saves = {};
  std::optional<unsigned> units = {};
  std::optional<int> slots = {};
  std::optional<double> max_norm = {}, dram_share = {};
  int threads = 0;
};
bench::StepBenchOptions step_bench_options(const BenchStepOptions& options);
bench::TrainBenchOptions train_bench_options(const BenchStepOptions& options);

// `bench compare`: what --json wrote, twice.
struct CompareRequest {
  std::filesystem::path a, b;
  std::optional<double> fail_above = {};  // percent
};

// The exit code (cli/outcome.h).
int run_bench_io(const bench::IoBenchOptions& options, const Output& output);
int run_bench_copy(const bench::CopyBenchOptions& options, const Output& output);
int run_bench_norm(const bench::NormBenchOptions& options, const Output& output);
int run_bench_adamw(const bench::AdamWBenchOptions& options, const Output& output);
int run_bench_step(const BenchStepOptions& options);
int run_bench_overhead(const bench::OverheadBenchOptions& options, const Output& output);
int run_bench_all(const bench::AllBenchOptions& options, const Output& output);
int run_bench_compare(const CompareRequest& request);

}  // namespace headrace::cli
