// `headrace doctor`: looks at this machine, says what is well and what is not, and what to type
// next.
//
// Changes nothing: the file that it opens to try the folder has no name and is gone at once.
#pragma once

#include <filesystem>
#include <vector>

#include "cli/fact.h"

namespace headrace::cli {

struct DoctorOptions {
  std::filesystem::path scratch = ".";  // where the state on disk would lie
  std::filesystem::path json = {};  // written there in addition; "-": to standard output instead
};

std::vector<Fact> examine(const DoctorOptions& options);

// The exit code: 0, or 3 when a fact failed, or 2 when the JSON cannot be written.
int run_doctor(const DoctorOptions& options);

}  // namespace headrace::cli
