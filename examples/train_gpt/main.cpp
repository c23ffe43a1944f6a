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

namespace fs = std::filesystem;

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

bool can_write_in(const fs::path& folder) {
  return fs::is_directory(folder) && ::access(folder.c_str(), W_OK) == 0;
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

Status no_place(const fs::path& path, std::string_view why) {
  return {Code::invalid, fmt::format("{}: {}", path.string(), why)};
}

// Whether checkpoints can lie there: a new folder, an empty one, or a checkpoint's own.
Status check_save(fs::path folder) {
  if (folder.empty()) return {};
  if (!folder.has_filename()) folder = folder.parent_path();
  const fs::path parent = parent_of(folder);
  if (!can_write_in(parent)) {
    return no_place(folder, fmt::format("{} is no folder that can be written to", parent.string()));
  }
  std::error_code gone;
  const fs::file_status found = fs::symlink_status(folder, gone);
  if (!fs::exists(found)) return {};
  if (fs::is_symlink(found)) return no_place(folder, "is a link, and links are not followed");
  if (!fs::is_directory(found)) return no_place(folder, "is not a folder");
  if (fs::is_empty(folder, gone) || fs::exists(folder / "manifest", gone)) return {};
  return no_place(folder, "holds something else, and no checkpoint: give a folder of its own");
}

// Whether the files asked for can lie where they shall, before hours are spent on them.
Status check_outputs(const Options& options) {
  HEADRACE_TRY(check_save(options.save).with("--save"));
  for (const fs::path& file : {options.export_file, options.trace, options.json}) {
    if (file.empty()) continue;
    const fs::path folder = parent_of(file);
    if (!can_write_in(folder)) {
      return no_place(file, fmt::format("{} is no folder that can be written to", folder.string()));
    }
    if (fs::is_directory(file)) return no_place(file, "is a folder: give a file");
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
