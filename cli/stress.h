// `headrace stress`: runs bench/stress.h, shows how it goes, and says how it ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/stress.h"

namespace headrace::cli {

struct StressRequest {
  std::vector<std::filesystem::path> scratch = {"."};
  std::uint64_t seconds = 60;
  std::uint64_t operations = 0;  // 0: by time
  std::uint64_t seed = 0;        // 0: a random one, printed
  std::uint64_t state_bytes = 64 * kMiB;
  bool no_faults = false;
  std::filesystem::path json;
};

// What the command prints at the end, and its JSON: {"schema": "headrace.stress/1", ...}.
std::string text_of(const bench::StressSummary& summary);
std::string json_of(const bench::StressSummary& summary);

// The exit code: 0 every bit was right, 1 something was not, 2 usage, 3 the folders cannot be used,
// 130 after Ctrl-C.
int run_stress(const StressRequest& request);

}  // namespace headrace::cli
