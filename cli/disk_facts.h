// The facts of `headrace doctor` about the folder where state on disk would lie. As with the
// machine's, each is judged by a pure function of what was read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/fact.h"
#include "io/status.h"

namespace headrace::cli {

std::vector<Fact> disk_facts(const std::filesystem::path& folder);

struct Folder {
  std::filesystem::path path = {};
  std::string file_system = {};  // "ext4"
  std::string mounted = {};      // "/dev/nvme0n1p1"
  Status opened = {};            // a file without a name, in it
  bool direct = false;           // past the page cache
  std::uint32_t alignment = 0;   // of direct transfers
  std::uint64_t free_bytes = 0;
};
Fact folder_fact(const Folder& folder);
Fact direct_fact(const Folder& folder);
Fact space_fact(const Folder& folder);

// A block device, from /sys/dev/block/MAJOR:MINOR; a partition is its whole drive. Nameless when
// there is none (network and in-memory file systems).
struct Drive {
  std::string name = {};  // "nvme0n1"
  bool nvme = false;
  bool rotating = false;  // as the kernel says; a virtual disk says so without meaning it
  bool virtual_disk = false;
};
Drive drive_of(std::uint64_t major, std::uint64_t minor, const std::filesystem::path& sys);
Fact drive_fact(const Drive& drive);

}  // namespace headrace::cli
