// The facts of this machine that a measured number means nothing without.
//
// Read once per command, from any thread. What cannot be read is "unknown" or 0, never an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace headrace::bench {

struct Machine {
  std::string cpu;                 // model name
  int cores = 0;                   // this process may run on so many
  std::uint64_t memory_bytes = 0;  // of the whole machine
  std::string kernel;              // release of the running kernel
  std::string disk;                // block device under the measured folder
  std::string file_system;         // its type
  std::string date;                // UTC, ISO 8601
  std::string version;             // of headrace
  std::string compiler;            // that built this binary
};

// `folder` is where the benchmark's files lie; it is only looked at.
Machine this_machine(const std::filesystem::path& folder);

// The mount that holds `path`: the last one of the longest matching mount point. `mounts` is the
// text of /proc/self/mounts.
struct Mount {
  std::string device;
  std::string type;
};
Mount mount_of(const std::filesystem::path& path, std::string_view mounts);

}  // namespace headrace::bench
