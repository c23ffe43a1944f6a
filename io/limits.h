// How much memory and CPU this process may have: the machine's, its cgroup's and its rlimits'.
//
// Read afresh at each call, from any thread. What cannot be read is no limit, or 0 bytes. Used to
// refuse a budget before any side effect, and by `headrace doctor`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace headrace {

// Where the kernel shows its state; tests have trees of their own.
struct SystemRoots {
  std::filesystem::path cgroup = "/sys/fs/cgroup";
  std::filesystem::path proc = "/proc";
};

// The cgroup's memory limit that leaves the least: of the process's own cgroup (v1 or v2) and all
// above it.
struct MemoryLimit {
  std::uint64_t limit_bytes = 0;
  std::uint64_t left_bytes =
      0;               // limit less what is used; page cache that can be dropped is not used
  std::string set_by;  // the file that says so
};
std::optional<MemoryLimit> cgroup_memory(const SystemRoots& roots = {});

// CPUs' worth of time, the lowest quota of all cgroups above: 1.5 is one and a half CPUs.
std::optional<double> cgroup_cpus(const SystemRoots& roots = {});

// MemTotal of the machine.
std::uint64_t total_memory_bytes(const SystemRoots& roots = {});

// What can be allocated without swapping or being killed: MemAvailable, or what the cgroup leaves.
std::uint64_t available_memory_bytes(const SystemRoots& roots = {});

// RLIMIT_MEMLOCK: what may be locked or registered; nothing: no limit.
std::optional<std::uint64_t> memlock_limit_bytes();

}  // namespace headrace
