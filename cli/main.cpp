// The command line: every command's options are parsed here, and only here; the work is in
// cli/<command>.cpp.
//
// Exit codes: 0 well, 1 measured but wrong or regressed, 2 usage, 3 the machine lacks something.
#include <CLI/CLI.hpp>

#include <memory>

#include "cli/doctor.h"

namespace headrace::cli {
namespace {

constexpr int kUsage = 2;

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

int run(int argc, char** argv) {
  CLI::App app("headrace: training state where it fits, in time", "headrace");
  app.set_version_flag("--version", "headrace " HEADRACE_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.footer("Example:\n  headrace doctor\n\nEach command has its own --help.");
  int code = 0;
  add_doctor(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return code;
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) { return headrace::cli::run(argc, argv); }
