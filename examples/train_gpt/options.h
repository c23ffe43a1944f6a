// The command line of train_gpt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/train_gpt/parameters.h"
#include "runtime/engine.h"

namespace train_gpt {

struct Options {
  std::filesystem::path data;
  ModelShape shape;
  std::uint64_t steps = 100, seed = 1, accumulate = 1;
  double learning_rate = 1e-3;

  headrace::StateHome state = headrace::StateHome::automatic;
  std::vector<std::filesystem::path> nvme_folders;
  std::optional<std::uint64_t> dram_bytes;  // for optimizer state alone
  headrace::StateFormat format = headrace::StateFormat::split;
  std::uint64_t slots = 4;
  std::uint64_t threads = 0;  // of the optimizer; 0: as many as this process may use
  std::uint64_t blas_threads = 2;

  std::filesystem::path save, resume, export_file, trace, json;  // empty: not wanted
  std::uint64_t save_every = 0;                                  // 0: at the end only

  std::string state_text = "auto";  // as given
};

// What the command line asks for: a run, or a text to print and a code to exit with.
struct CommandLine {
  std::optional<Options> run;
  std::string text;
  int exit_code = 0;
};
// `arguments` without the program's name. An option given twice: the last counts.
CommandLine parse(const std::vector<std::string>& arguments);

// "dram", "hbm", "nvme:FOLDER[,FOLDER]", "auto" into `state`, `nvme_folders` and `state_text`.
headrace::Status set_state(Options& options, const std::string& text);

}  // namespace train_gpt
