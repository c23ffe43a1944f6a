// Every benchmark's options are parsed here; what they mean is in bench/, what is done with the
// results in cli/bench.cpp.
#include "cli/bench_line.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/size_option.h"

namespace headrace::cli {
namespace {

using Wrong = CLI::ValidationError;

// What was given of a benchmark's options, in the order given: set when it is known whether the
// rest is that of --quick.
template <class Options>
struct Given {
  std::vector<std::function<void(Options&)>> set;
  Output output;
  bool quick = false;

  Options over(Options rest) const {
    for (const auto& each : set) each(rest);
    return rest;
  }
};

template <class Options>
using Shared = std::shared_ptr<Given<Options>>;

template <class Options, class Value>
CLI::Option* add(CLI::App& command, const Shared<Options>& given, const std::string& name,
                 Value Options::*member, const std::string& help) {
  const auto take = [given, member](const Value& value) {
    given->set.push_back([member, value](Options& options) { options.*member = value; });
  };
  return command.add_option_function<Value>(name, take, help);
}

template <class Options>
void add_bytes(CLI::App& command, const Shared<Options>& given, const std::string& name,
               std::uint64_t Options::*member, const std::string& help) {
  const auto take = [given, name, member](const std::string& text) {
    const std::uint64_t value = value_of<Wrong>(name, parse_size(text));
    given->set.push_back([member, value](Options& options) { options.*member = value; });
  };
  command.add_option_function<std::string>(name, take, help)->type_name("SIZE");
}

// "64KiB,1MiB"
template <class Options>
void add_byte_list(CLI::App& command, const Shared<Options>& given, const std::string& name,
                   std::vector<std::uint64_t> Options::*member, const std::string& help) {
  const auto take = [given, name, member](const std::vector<std::string>& texts) {
    std::vector<std::uint64_t> values;
    for (const std::string& text : texts) values.push_back(value_of<Wrong>(name, parse_size(text)));
    given->set.push_back([member, values](Options& options) { options.*member = values; });
  };
  command.add_option_function<std::vector<std::string>>(name, take, help)
      ->type_name("SIZE,SIZE")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// One of a few names.
template <class Options, class Value>
void add_choice(CLI::App& command, const Shared<Options>& given, const std::string& name,
                Value Options::*member, const std::map<std::string, Value>& values,
                const std::string& help) {
  const auto take = [given, member, values](const std::string& text) {
    given->set.push_back([=](Options& options) { options.*member = values.at(text); });
  };
  command.add_option_function<std::string>(name, take, help)->check(CLI::IsMember(values));
}

template <class Options>
void add_flag(CLI::App& command, const Shared<Options>& given, const std::string& name,
              bool Options::*member, bool value, const std::string& help) {
  const auto take = [given, member, value](std::int64_t) {
    given->set.push_back([member, value](Options& options) { options.*member = value; });
  };
  command.add_flag_function(name, take, help);
}

template <class Options>
void add_folder(CLI::App& command, const Shared<Options>& given,
                std::filesystem::path Options::*member) {
  add(command, given, "--scratch", member, "Folder where files lie while measured (.)")
      ->type_name("FOLDER")
      ->check(CLI::ExistingDirectory);
}

void add_files(CLI::App& command, Output& output) {
  add_output_file(command, "--json", output.json, kJsonHelp);
  add_output_file(command, "--html", output.html, "Write a page with plots there too");
}

constexpr const char* kTraceHelp = "Chrome trace of what headrace did, opens in Perfetto";

template <class Options>
void add_trace(CLI::App& command, const Shared<Options>& given) {
  add(command, given, "--trace", &Options::trace, kTraceHelp)
      ->type_name("FILE")
      ->check(cannot_write);
}

template <class Options>
void add_output(CLI::App& command, const Shared<Options>& given, const std::string& example) {
  command.add_flag("--quick", given->quick, "About ten seconds instead of a minute");
  add_files(command, given->output);
  command.footer("Example:\n  " + example);
}

void add_bench_io(CLI::App& bench, int& code) {
  using Options = bench::IoBenchOptions;
  using bench::Direction;
  CLI::App& command = *bench.add_subcommand("io", "Reads and writes of files beside a plain loop");
  const auto given = std::make_shared<Given<Options>>();
  const std::map<std::string, std::vector<Direction>> directions{
      {"read", {Direction::read}},
      {"write", {Direction::write}},
      {"mixed", {Direction::mixed}},
      {"all", {Direction::read, Direction::write, Direction::mixed}}};
  const std::map<std::string, bench::IoBenchBackend> backends{
      {"uring", bench::IoBenchBackend::uring}, {"posix", bench::IoBenchBackend::posix}};
  add(command, given, "--scratch", &Options::folders, "Folders, on one drive or several (.)")
      ->type_name("FOLDER,FOLDER")
      ->delimiter(',')
      ->check(CLI::ExistingDirectory)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_choice(command, given, "--direction", &Options::directions, directions,
             "read, write, mixed or all (all)");
  add_byte_list(command, given, "--block", &Options::blocks, "Bytes of a request (1MiB,4MiB)");
  add(command, given, "--depth", &Options::depths, "Requests in flight (32 MiB of them)")
      ->type_name("N,N")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add(command, given, "--files", &Options::files, "In each folder, of each direction (1)");
  add_bytes(command, given, "--size", &Options::file_bytes, "Of a file (1GiB)");
  add(command, given, "--seconds", &Options::seconds, "Of a sample (as long as 512 MiB take)");
  add(command, given, "--rounds", &Options::rounds, "Samples of each row (as many as 50 s allow)");
  add_flag(command, given, "--buffered", &Options::buffered, true, "Through the page cache");
  add_choice(command, given, "--backend", &Options::backend, backends, "uring or posix (uring)");
  add_flag(command, given, "--no-bound", &Options::bound, false, "Without the plain loop");
  add_trace(command, given);
  add_output(command, given, "headrace bench io --scratch /mnt/nvme --block 1MiB --depth 8,32");
  command.callback([given, &code] {
    bench::IoBenchOptions rest = given->quick ? bench::quick_io_bench() : bench::IoBenchOptions();
    rest.folders = {"."};
    code = run_bench_io(given->over(std::move(rest)), given->output);
  });
}

void add_bench_copy(CLI::App& bench, int& code) {
  using Options = bench::CopyBenchOptions;
  CLI::App& command = *bench.add_subcommand("copy", "Moves between host, device and NVMe");
  const auto given = std::make_shared<Given<Options>>();
  add_folder(command, given, &Options::folder);
  add_byte_list(command, given, "--size", &Options::sizes, "Of a move (256KiB to 64MiB)");
  add_bytes(command, given, "--bytes", &Options::bytes, "Of a sample (256MiB)");
  add(command, given, "--threads", &Options::threads, "Of the team's memcpy; 0: every CPU");
  add(command, given, "--rounds", &Options::rounds, "Samples of each row (12)");
  add_trace(command, given);
  add_output(command, given, "headrace bench copy --scratch /mnt/nvme --size 4MiB,16MiB");
  command.callback([given, &code] {
    Options rest = given->quick ? bench::quick_copy_bench() : Options();
    rest.folder = ".";
    code = run_bench_copy(given->over(std::move(rest)), given->output);
  });
}

void add_bench_norm(CLI::App& bench, int& code) {
  using Options = bench::NormBenchOptions;
  CLI::App& command = *bench.add_subcommand("norm", "The norm of gradients beside plain reads");
  const auto given = std::make_shared<Given<Options>>();
  add(command, given, "--threads", &Options::threads, "Beside one; 0: every CPU");
  add_flag(command, given, "--resident", &Options::resident, true, "In the L2 cache, one thread");
  add(command, given, "--rounds", &Options::rounds, "Clean samples wanted of each row (60)");
  add_output(command, given, "headrace bench norm --json norm.json");
  command.callback([given, &code] {
    code = run_bench_norm(given->over(given->quick ? bench::quick_norm_bench() : Options()),
                          given->output);
  });
}

void add_bench_adamw(CLI::App& bench, int& code) {
  using Options = bench::AdamWBenchOptions;
  CLI::App& command = *bench.add_subcommand(
      "adamw", "The optimizer's update beside the floor of its memory streams");
  const auto given = std::make_shared<Given<Options>>();
  add(command, given, "--threads", &Options::threads, "Beside one; 0: every CPU");
  add_flag(command, given, "--resident", &Options::resident, true, "In the L2 cache, one thread");
  add_flag(command, given, "--no-yardsticks", &Options::yardsticks, false,
           "Without the loops of others");
  add(command, given, "--rounds", &Options::rounds, "Clean samples wanted of each row (60)");
  add_output(command, given, "headrace bench adamw --json adamw.json");
  command.callback([given, &code] {
    code = run_bench_adamw(given->over(given->quick ? bench::quick_adamw_bench() : Options()),
                           given->output);
  });
}

void add_bench_overhead(CLI::App& bench, int& code) {
  using Options = bench::OverheadBenchOptions;
  CLI::App& command = *bench.add_subcommand(
      "overhead",
      "What headrace itself costs a shard and step: no byte moves, nothing is computed");
  const auto given = std::make_shared<Given<Options>>();
  add(command, given, "--shards", &Options::shards,
      "In the model, fewest first (1000,10000,100000)")
      ->type_name("N,N")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add(command, given, "--units", &Options::units, "Layers (20)");
  add(command, given, "--slots", &Options::slots, "Shards in DRAM at once (4)");
  add(command, given, "--rounds", &Options::rounds, "Samples of each row (5)");
  add_output(command, given, "headrace bench overhead --shards 1000,100000");
  command.callback([given, &code] {
    code = run_bench_overhead(given->over(given->quick ? bench::quick_overhead_bench() : Options()),
                              given->output);
  });
}

void add_bench_all(CLI::App& bench, int& code) {
  using Options = bench::AllBenchOptions;
  CLI::App& command = *bench.add_subcommand(
      "all", "All of them, and what limits a step on this machine, on one page");
  const auto given = std::make_shared<Given<Options>>();
  add_folder(command, given, &Options::folder);
  const auto take = [given](const std::string& text) {
    const auto count = value_of<Wrong>("--params", parse_count(text));
    given->set.push_back([count](Options& to) { to.parameters = static_cast<double>(count); });
  };
  command.add_option_function<std::string>("--params", take, "Of the model to advise on (7B)")
      ->type_name("COUNT");
  add_bytes(command, given, "--dram", &Options::dram_bytes, "For state (half of the memory)");
  add_output(command, given, "headrace bench all --scratch /mnt/nvme --params 7B");
  command.callback([given, &code] {
    Options rest = given->quick ? bench::quick_all_bench() : Options();
    rest.folder = ".";
    code = run_bench_all(given->over(std::move(rest)), given->output);
  });
}

void add_bench_compare(CLI::App& bench, int& code) {
  CLI::App& command = *bench.add_subcommand("compare", "What changed from one report to another");
  const auto request = std::make_shared<CompareRequest>();
  command.add_option("a", request->a, "What --json wrote")->required()->type_name("A.json");
  command.add_option("b", request->b, "And later")->required()->type_name("B.json");
  command
      .add_option("--fail-above", request->fail_above,
                  "Ends with 1 when a row is worse by more percent than that, beyond its spread")
      ->type_name("PERCENT")
      ->check(CLI::NonNegativeNumber);
  command.footer("Example:\n  headrace bench compare before.json after.json --fail-above 5");
  command.callback([request, &code] { code = run_bench_compare(*request); });
}

void add_model_options(CLI::App& command, BenchStepOptions& options) {
  const std::map<std::string, std::vector<StateFormat>> formats{
      {"fp32", {StateFormat::fp32}},
      {"split", {StateFormat::split}},
      {"both", {StateFormat::fp32, StateFormat::split}}};
  command
      .add_option_function<std::string>(
          "--format",
          [&options, formats](const std::string& name) { options.formats = formats.at(name); },
          "Of the state: fp32, split or both")
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT");
  add_size<Wrong>(command, "--size", options.state_bytes,
                  "State to update (1GiB; with --train 256MiB)");
  add_size<Wrong>(command, "--shard", options.shard_bytes,
                  "State of one shard at most (from --dram)");
  add_size<Wrong>(command, "--dram", options.dram_bytes,
                  "DRAM for state: slots, then pinned (96MiB)");
  command
      .add_option("--dram-share", options.dram_share,
                  "Of the state, pinned in DRAM beside that, 0 to 1 (0)")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--slots", options.slots, "Shards in DRAM at once (4; with --train 3)");
  command.add_option("--units", options.units, "Equal layers (24)")->check(CLI::Range(1, 4096));
  command.add_option("--threads", options.threads, "The optimizer's team; 0: every CPU");
  command.add_option("--max-norm", options.max_norm, "Clips the gradients' norm (1); 0: does not");
}

void add_bench_step(CLI::App& bench, int& code) {
  CLI::App* command =
      bench.add_subcommand("step", "A step with its state on NVMe beside what the disk can do");
  const auto options = std::make_shared<BenchStepOptions>();
  command->add_option("--scratch", options->scratch, "Folder where state lies while measured")
      ->type_name("FOLDER")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  add_model_options(*command, *options);
  command->add_option("--rounds", options->rounds, "Steps of each row (12; with --train 7)")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--saves", options->saves, "Checkpoints of each row (8); 0: none")
      ->check(CLI::Range(0, 1'000'000));
  command->add_flag("--train", options->train,
                    "Training steps, forward and backward played, beside the best possible");
  add_size<Wrong>(*command, "--rate", options->disk_bytes_per_second,
                  "With --train: bytes a second that the disk is held to (1.5GB)");
  command->add_flag("--quick", options->quick, "About ten seconds instead of a minute");
  add_files(*command, options->output);
  add_output_file(*command, "--trace", options->trace, kTraceHelp);
  command->footer("Example:\n  headrace bench step --scratch /mnt/nvme --json step.json");
  command->callback([options, &code] { code = run_bench_step(*options); });
}

}  // namespace

void add_bench(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("bench", "Measured values, each beside its bound");
  command->require_subcommand(1);
  command->footer("Example:\n  headrace bench all --quick\n\nEach benchmark has its own --help.");
  add_bench_all(*command, code);
  add_bench_io(*command, code);
  add_bench_copy(*command, code);
  add_bench_norm(*command, code);
  add_bench_adamw(*command, code);
  add_bench_step(*command, code);
  add_bench_overhead(*command, code);
  add_bench_compare(*command, code);
}

}  // namespace headrace::cli
