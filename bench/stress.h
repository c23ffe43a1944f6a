// `headrace stress`: random machines, models and operations on real folders, with faults injected
// into the I/O, each beside a reference that keeps everything in memory and meets no fault. Every
// byte of state and parameters is compared. From one thread.
//
// What must hold: an operation that says it went well has left the same bits in both; one that
// fails was met by a fault, and the last checkpoint then brings both to the same bits again. Both
// are engines of the same kernels; that those are right is for `headrace`'s own tests to show.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "io/status.h"

namespace headrace::bench {

struct StressSummary {
  std::uint64_t seed = 0;
  std::uint64_t rounds = 0;  // machines and models
  std::uint64_t operations = 0;
  std::uint64_t steps = 0;
  std::uint64_t read_bytes = 0;     // of state on NVMe
  std::uint64_t written_bytes = 0;  // of state on NVMe
  std::uint64_t compared_bytes = 0;
  std::uint64_t faults = 0;    // that struck a transfer
  std::uint64_t survived = 0;  // of those: the operation went well, with the right bits
  std::uint64_t reported = 0;  // operations that failed, and said why
  std::uint64_t recovered = 0;
  std::uint64_t reopened = 0;  // reusable slabs that a new engine took up
  std::string slowest;         // operation
  double slowest_seconds = 0;
  double seconds = 0;
  std::string wrong;  // what was, and in which round; "": nothing
  bool stopped = false;
};

struct StressOptions {
  std::vector<std::filesystem::path> folders;  // they exist; what is made in them is removed again
  std::chrono::seconds time{60};               // for operations = 0
  std::uint64_t operations = 0;                // 0: as many as fit into the time
  std::uint64_t seed = 1;
  std::uint64_t state_bytes = 64 * kMiB;  // of a model at most
  bool faults = true;
  std::function<void(const StressSummary&)> progress;  // now and then
  std::function<bool()> stop;                          // true: end after this operation
};

// Ends at the first thing that is wrong. Fails only when the folders cannot be used at all.
Result<StressSummary> stress(const StressOptions& options);

}  // namespace headrace::bench
