// `headrace check FOLDER`: reads a whole checkpoint on all cores and says whether every block of it
// is what was saved. Changes nothing.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/checkpoint_tools.h"

namespace headrace::cli {

struct CheckRequest {
  std::filesystem::path folder = {};
  int threads = 0;  // 0: every CPU this process may use
};

// What was found, for people: what the checkpoint holds, and each bad block.
std::string text_of(const CheckReport& report, const std::filesystem::path& folder);

// The exit code: 0 whole, 1 damaged, 2 not a checkpoint, 3 it could not be read.
int run_check(const CheckRequest& request);

}  // namespace headrace::cli
