// train_gpt: see --help.
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include <fmt/format.h>

#include "examples/train_gpt/interrupt.h"
#include "examples/train_gpt/trainer.h"
#include "examples/train_gpt/utf8.h"

namespace train_gpt {
namespace {

using headrace::Code;
using headrace::Status;

constexpr std::size_t kSampleBytes = 240;
constexpr int kInterrupted = 130;  // as a shell has it: 128 + SIGINT

int exit_code(Code code) {
  switch (code) {
    case Code::ok:
      return 0;
    case Code::invalid:
      return 2;
    case Code::out_of_memory:
    case Code::out_of_space:
    case Code::unavailable:
      return 3;
    default:
      return 1;
  }
}

Status write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  return file ? Status() : Status(Code::io, fmt::format("{}: cannot be written", path.string()));
}

// Whether the files asked for can lie where they shall, before hours are spent on them.
Status check_outputs(const Options& options) {
  for (const std::filesystem::path& file : {options.export_file, options.trace, options.json}) {
    if (file.empty()) continue;
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    if (!std::filesystem::is_directory(folder) || ::access(folder.c_str(), W_OK) != 0) {
      return {Code::invalid, fmt::format("{}: {} is no folder that can be written to",
                                         file.string(), folder.string())};
    }
  }
  return {};
}

// What is worth its time only when the run came to its end.
Status finish(Trainer& trainer, const Options& options) {
  HEADRACE_TRY(trainer.evaluate());
  HEADRACE_TRY(trainer.measure_parts());
  if (!options.export_file.empty()) HEADRACE_TRY(trainer.export_weights());
  HEADRACE_ASSIGN(const auto sampled, trainer.sample_text(kSampleBytes));
  fmt::print("A sample:\n{}\n\n", printable(sampled));
  return {};
}

headrace::Result<bool> run(const Options& options) {
  HEADRACE_TRY(check_outputs(options));
  HEADRACE_ASSIGN(const Text text, Text::read(options.data));
  headrace::PlatformOptions platform_options;
  platform_options.trace = !options.trace.empty();
  platform_options.on_message = [](std::string_view message) {
    fmt::print(stderr, "train_gpt: {}\n", message);
  };
  HEADRACE_ASSIGN(const auto platform, headrace::Platform::open(std::move(platform_options)));
  HEADRACE_ASSIGN(const auto trainer, Trainer::open(*platform, options, text));
  catch_interrupts();
  HEADRACE_TRY(trainer->train({interrupted}));
  // Before what follows adds to it.
  if (!options.trace.empty()) HEADRACE_TRY(platform->trace()->write(options.trace).with("--trace"));
  const bool stopped = interrupted();
  const Status saved = trainer->save_last();
  if (!stopped) HEADRACE_TRY(finish(*trainer, options));
  HEADRACE_ASSIGN(const RunReport report, trainer->report());
  if (!options.json.empty()) HEADRACE_TRY(write_file(options.json, to_json(report)).with("--json"));
  fmt::print("{}", to_table(report));
  HEADRACE_TRY(saved);
  return stopped;
}

int main(const std::vector<std::string>& arguments) {
  const CommandLine line = parse(arguments);
  if (!line.run) {
    fmt::print(line.exit_code == 0 ? stdout : stderr, "{}", line.text);
    return line.exit_code;
  }
  const auto stopped = run(*line.run);
  if (!stopped.ok()) {
    fmt::print(stderr, "train_gpt: {}\n", stopped.status().message());
    return exit_code(stopped.status().code());
  }
  return *stopped ? kInterrupted : 0;
}

}  // namespace
}  // namespace train_gpt

int main(int argc, char** argv) { return train_gpt::main({argv + 1, argv + argc}); }
