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
#include "cli/bench_line.h"
#include "cli/check.h"
#include "cli/doctor.h"
#include "cli/outcome.h"
#include "cli/plan.h"
#include "cli/size_option.h"
#include "cli/stress.h"

namespace headrace::cli {
namespace {

using Wrong = CLI::ValidationError;

// A command's options live as long as the parser; `code` is what the process ends with.
void add_doctor(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("doctor", "Facts of this machine, and what to type next");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("--scratch", options->scratch, "Folder where state on disk would lie")
      ->type_name("FOLDER")
      ->capture_default_str();
  add_output_file(*command, "--json", options->json,
                  "Write the facts there too; -: to standard output instead");
  command->footer("Example:\n  headrace doctor --scratch /mnt/nvme --json facts.json");
  command->callback([options, &code] { code = run_doctor(*options); });
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
    options.parameters = value_of<Wrong>("--params", parse_count(text));
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
  add_size<Wrong>(command, "--dram", options.dram_bytes,
                  "DRAM for state: slots, then pinned (as much as it takes)");
  add_size<Wrong>(command, "--hbm", options.hbm_bytes, "Device memory for state (none)");
  add_size<Wrong>(command, "--shard", options.shard_bytes,
                  "State of one shard at most (from --dram)");
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
    return value_of<Wrong>("--nvme-bandwidth", parse_size(rates[i]));
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
  add_size<Wrong>(command, "--memory-bandwidth", options.update,
                  "Bytes a second of the update's memory traffic (20GB)");
  add_size<Wrong>(command, "--endurance", options.rated_endurance,
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
  add_output_file(*command, "--json", options->json, kJsonHelp);
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
  add_size<Wrong>(*command, "--size", request->state_bytes, "State of a model at most (64MiB)");
  command->add_flag("--no-faults", request->no_faults, "The machine's own faults only");
  add_output_file(*command, "--json", request->json, kJsonHelp);
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
