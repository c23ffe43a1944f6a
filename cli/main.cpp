// The command line: every command's options are parsed here, and only here; the work is in
// cli/<command>.cpp.
//
// Exit codes: 0 well, 1 measured but wrong or regressed, 2 usage, 3 the machine lacks something.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/sizes.h"
#include "cli/bench.h"
#include "cli/check.h"
#include "cli/doctor.h"
#include "cli/outcome.h"
#include "cli/plan.h"
#include "cli/stress.h"

namespace headrace::cli {
namespace {

constexpr const char* kJsonHelp = "Write the results there too; -: to standard output instead";

std::uint64_t value_of(const std::string& option, const Result<std::uint64_t>& parsed) {
  if (parsed.ok()) return *parsed;
  throw CLI::ValidationError(option, std::string(parsed.status().message()));
}

// "64MiB", "1e9": bytes.
template <class Target>
CLI::Option* add_size(CLI::App& command, const std::string& name, Target& target,
                      const std::string& help) {
  const auto take = [name, &target](const std::string& text) {
    target = value_of(name, parse_size(text));
  };
  return command.add_option_function<std::string>(name, take, help)->type_name("SIZE");
}

// A command's options live as long as the parser; `code` is what the process ends with.
void add_doctor(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("doctor", "Facts of this machine, and what to type next");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("--scratch", options->scratch, "Folder where state on disk would lie")
      ->type_name("FOLDER")
      ->capture_default_str();
  command
      ->add_option("--json", options->json,
                   "Write the facts there too; -: to standard output instead")
      ->type_name("FILE");
  command->footer("Example:\n  headrace doctor --scratch /mnt/nvme --json facts.json");
  command->callback([options, &code] { code = run_doctor(*options); });
}

void add_bench_adamw(CLI::App& bench, int& code) {
  CLI::App* command = bench.add_subcommand(
      "adamw", "The optimizer's update beside the floor of its memory streams");
  const auto options = std::make_shared<BenchAdamWOptions>();
  command->add_flag("--quick", options->quick, "About ten seconds instead of a minute");
  command->add_option("--json", options->json, kJsonHelp)->type_name("FILE");
  command->footer("Example:\n  headrace bench adamw --json adamw.json");
  command->callback([options, &code] { code = run_bench_adamw(*options); });
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
  add_size(command, "--size", options.state_bytes, "State to update (1GiB; with --train 256MiB)");
  add_size(command, "--shard", options.shard_bytes, "State of one shard at most (from --dram)");
  add_size(command, "--dram", options.dram_bytes, "DRAM for state: slots, then pinned (96MiB)");
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
  command->add_flag("--train", options->train,
                    "Training steps, forward and backward played, beside the best possible");
  add_size(*command, "--rate", options->disk_bytes_per_second,
           "With --train: bytes a second that the disk is held to (1.5GB)");
  command->add_flag("--quick", options->quick, "About ten seconds instead of a minute");
  command->add_option("--json", options->json, kJsonHelp)->type_name("FILE");
  command->add_option("--trace", options->trace, "Chrome trace of the steps, opens in Perfetto")
      ->type_name("FILE");
  command->footer("Example:\n  headrace bench step --scratch /mnt/nvme --json step.json");
  command->callback([options, &code] { code = run_bench_step(*options); });
}

void add_bench(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("bench", "Measured values, each beside its bound");
  command->require_subcommand(1);
  command->footer("Example:\n  headrace bench step --quick\n\nEach benchmark has its own --help.");
  add_bench_adamw(*command, code);
  add_bench_step(*command, code);
}

void add_check(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("check", "Read a checkpoint and verify every block of it");
  const auto request = std::make_shared<CheckRequest>();
  command->add_option("folder", request->folder, "What was given to save")
      ->required()
      ->type_name("FOLDER");
  command->add_option("--threads", request->threads, "How many; 0: every CPU")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->footer("Example:\n  headrace check runs/gpt");
  command->callback([request, &code] { code = run_check(*request); });
}

void add_plan_model(CLI::App& command, PlanOptions& options) {
  const std::map<std::string, StateFormat> formats{{"fp32", StateFormat::fp32},
                                                   {"split", StateFormat::split}};
  const auto take_count = [&options](const std::string& text) {
    options.parameters = value_of("--params", parse_count(text));
  };
  command.add_option_function<std::string>("--params", take_count, "Parameters: 7e9, 7B, 350M")
      ->required()
      ->type_name("NUMBER");
  command.add_option("--units", options.units, "Equal layers")->capture_default_str();
  command
      .add_option_function<std::string>(
          "--format",
          [&options, formats](const std::string& name) { options.format = formats.at(name); },
          "Of the state: fp32 or split (split)")
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT");
  add_size(command, "--dram", options.dram_bytes,
           "DRAM for state: slots, then pinned (as much as it takes)");
  add_size(command, "--hbm", options.hbm_bytes, "Device memory for state (none)");
  add_size(command, "--shard", options.shard_bytes, "State of one shard at most (from --dram)");
  command.add_option("--slots", options.slots, "Shards in DRAM at once")->capture_default_str();
}

void add_plan_compute(CLI::App& command, PlanOptions& options) {
  command.add_option("--accumulate", options.micro_batches, "Micro-batches a step")
      ->capture_default_str();
  command.add_option("--forward", options.forward, "Seconds of one micro-batch's forward");
  command.add_option("--backward", options.backward, "And of its backward (twice the forward)");
  command.add_option("--tokens", options.tokens, "Without --forward: tokens of a micro-batch")
      ->capture_default_str();
  command.add_option("--flops", options.flops, "And what the device computes a second")
      ->capture_default_str();
}

// "3GB,2.5GB,2GB".
void take_bandwidth(PlanOptions& options, const std::string& text) {
  const std::vector<std::string> rates = CLI::detail::split(text, ',');
  if (rates.size() > 3)
    throw CLI::ValidationError(
        "--nvme-bandwidth",
        std::to_string(rates.size()) + " rates: give read, write and both at once, or fewer");
  const auto rate = [&rates](std::size_t i) {
    return value_of("--nvme-bandwidth", parse_size(rates[i]));
  };
  options.nvme_read = rate(0);
  options.nvme_write = rate(rates.size() > 1 ? 1 : 0);
  options.nvme_mixed = rates.size() > 2 ? rate(2) : 0;
}

void add_plan_machine(CLI::App& command, PlanOptions& options) {
  command
      .add_option_function<std::string>(
          "--nvme-bandwidth",
          [&options](const std::string& rates) { take_bandwidth(options, rates); },
          "Bytes a second: read, write, both at once (3GB,2.5GB)")
      ->type_name("SIZE,SIZE,SIZE");
  add_size(command, "--memory-bandwidth", options.update,
           "Bytes a second of the update's memory traffic (20GB)");
  add_size(command, "--endurance", options.rated_endurance,
           "Bytes that the drives are rated to be written (600TB)");
  command.add_option("--measure", options.measure, "Measure the disk there and this CPU instead")
      ->type_name("FOLDER")
      ->check(CLI::ExistingDirectory);
}

void add_plan(CLI::App& app, int& code) {
  CLI::App* command =
      app.add_subcommand("plan", "What goes where for a model, why, and what a step will take");
  const auto options = std::make_shared<PlanOptions>();
  add_plan_model(*command, *options);
  add_plan_compute(*command, *options);
  add_plan_machine(*command, *options);
  command->add_option("--json", options->json, kJsonHelp)->type_name("FILE");
  command->footer(
      "Example:\n  headrace plan --params 7e9 --dram 16GB --nvme-bandwidth 6GB,4GB "
      "--forward 1.2 --backward 2.4");
  command->callback([options, &code] { code = run_plan(*options); });
}

void add_stress(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand(
      "stress", "Random work and faults on this machine, every byte beside a reference");
  const auto request = std::make_shared<StressRequest>();
  command->add_option("--scratch", request->scratch, "Where state lies; more than one: striped")
      ->type_name("FOLDER,FOLDER")
      ->delimiter(',')
      ->check(CLI::ExistingDirectory)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->capture_default_str();
  command->add_option("--time", request->seconds, "Seconds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--operations", request->operations, "So many instead of a time");
  command->add_option("--seed", request->seed, "0: a random one, which is printed")
      ->capture_default_str();
  add_size(*command, "--size", request->state_bytes, "State of a model at most (64MiB)");
  command->add_flag("--no-faults", request->no_faults, "The machine's own faults only");
  command->add_option("--json", request->json, kJsonHelp)->type_name("FILE");
  command->footer("Example:\n  headrace stress --scratch /mnt/nvme --time 600");
  command->callback([request, &code] { code = run_stress(*request); });
}

std::string names_of_commands(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands({}))
    names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

// What is missing: a command, when what stands first is none; or what a command needs.
int lacking(const CLI::App& app, const std::string& first, const CLI::Error& error) {
  std::string names = names_of_commands(app);
  std::string why = first.empty() ? "a command is missing" : "there is no command \"" + first + '"';
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() != first) continue;
    names = names_of_commands(*command);
    why = first + " needs a command of its own";
    if (names.empty()) return app.exit(error) == 0 ? 0 : kUsage;
  }
  std::fprintf(stderr, "headrace: %s: give one of %s\nRun with --help for more information.\n",
               why.c_str(), names.c_str());
  return kUsage;
}

int run(int argc, char** argv) {
  CLI::App app("headrace: training state where it fits, in time", "headrace");
  app.set_version_flag("--version", "headrace " HEADRACE_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.footer("Example:\n  headrace doctor\n\nEach command has its own --help.");
  int code = 0;
  add_doctor(app, code);
  add_bench(app, code);
  add_check(app, code);
  add_plan(app, code);
  add_stress(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    return lacking(app, argc > 1 ? argv[1] : "", error);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return code;
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) { return headrace::cli::run(argc, argv); }
