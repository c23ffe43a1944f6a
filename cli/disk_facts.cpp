#include "cli/disk_facts.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "bench/machine.h"
#include "io/bytes.h"
#include "io/io_engine.h"

namespace headrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLeastSpace = 64 * kMiB;
constexpr std::uint64_t kLittleSpace = 4 * kGiB;
constexpr const char* kElsewhere =
    "headrace doctor --scratch FOLDER, with a folder on a local NVMe drive";

bool one_of(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, name) != list.end();
}

bool in_memory(std::string_view file_system) { return one_of(file_system, {"tmpfs", "ramfs"}); }

bool over_network(std::string_view file_system) {
  return file_system.starts_with("fuse") ||
         one_of(file_system, {"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "lustre"});
}

// Opens, looks and closes; nothing is left behind.
void try_a_file(Folder& folder) {
  const auto engine = posix_engine();
  const auto free = engine->free_bytes(folder.path);
  folder.free_bytes = free.ok() ? *free : 0;
  const auto file =
      engine->open_file({.path = folder.path, .mode = FileMode::scratch, .size = 4096});
  folder.opened = file.status();
  if (!file.ok()) return;
  folder.direct = file->direct;
  folder.alignment = file->alignment;
  engine->close_file(*file);
}

Folder read_folder(const fs::path& path) {
  const bench::Machine machine = bench::this_machine(path);
  Folder folder{.path = path, .file_system = machine.file_system, .mounted = machine.disk};
  try_a_file(folder);
  return folder;
}

// The device that holds the folder. Some file systems (btrfs, overlay) give a number of their own:
// then the device that is mounted.
Drive read_drive(const Folder& folder) {
  struct stat facts {};
  if (stat(folder.path.c_str(), &facts) != 0) return {};
  const Drive drive = drive_of(major(facts.st_dev), minor(facts.st_dev), "/sys");
  if (!drive.name.empty() || stat(folder.mounted.c_str(), &facts) != 0 || !S_ISBLK(facts.st_mode))
    return drive;
  return drive_of(major(facts.st_rdev), minor(facts.st_rdev), "/sys");
}

}  // namespace

Fact folder_fact(const Folder& folder) {
  Fact fact{.name = "folder",
            .text = fmt::format("{} on {} ({})", folder.path.string(), folder.file_system,
                                folder.mounted),
            .values = {{"path", folder.path.string()},
                       {"file_system", folder.file_system},
                       {"mounted", folder.mounted},
                       {"usable", folder.opened.ok()}}};
  if (!folder.opened.ok()) {
    fact.verdict = Verdict::fail;
    fact.text += ": " + folder.opened.to_string();
    fact.next = "headrace doctor --scratch FOLDER, with a folder that exists and can be written";
  } else if (in_memory(folder.file_system) || over_network(folder.file_system)) {
    fact.verdict = Verdict::warn;
    fact.text += in_memory(folder.file_system) ? ": its files lie in DRAM"
                                               : ": its files lie behind a network";
    fact.next = kElsewhere;
  }
  return fact;
}

Fact direct_fact(const Folder& folder) {
  Fact fact{.name = "direct I/O",
            .values = {{"direct", folder.direct}, {"alignment", std::uint64_t{folder.alignment}}}};
  if (folder.direct) {
    fact.text = fmt::format("past the page cache, aligned to {} bytes", folder.alignment);
    return fact;
  }
  fact.verdict = Verdict::warn;
  fact.text =
      "through the page cache: more CPU time, more memory, and figures that say little of the "
      "drive";
  fact.next = kElsewhere;
  return fact;
}

Fact space_fact(const Folder& folder) {
  Fact fact{.name = "space",
            .text = format_bytes(folder.free_bytes) + " free",
            .values = {{"free_bytes", folder.free_bytes}}};
  if (folder.free_bytes < kLittleSpace) {
    fact.verdict = folder.free_bytes < kLeastSpace ? Verdict::fail : Verdict::warn;
    fact.text += fmt::format(": the fp32 state of {:.0f} million parameters",
                             static_cast<double>(folder.free_bytes) / 12e6);
    fact.next = "free space, or choose another folder with --scratch";
  }
  return fact;
}

Drive drive_of(std::uint64_t major, std::uint64_t minor, const fs::path& sys) {
  std::error_code missing;
  fs::path device = fs::canonical(sys / "dev/block" / fmt::format("{}:{}", major, minor), missing);
  if (missing) return {};
  if (fs::exists(device / "partition")) device = device.parent_path();
  Drive drive{.name = device.filename().string()};
  drive.nvme = drive.name.starts_with("nvme");
  drive.virtual_disk = drive.name.starts_with("vd") || drive.name.starts_with("xvd");
  std::ifstream(device / "queue/rotational") >> drive.rotating;
  return drive;
}

Fact drive_fact(const Drive& drive) {
  Fact fact{.name = "drive",
            .values = {{"name", drive.name},
                       {"nvme", drive.nvme},
                       {"rotating", drive.rotating},
                       {"virtual", drive.virtual_disk}}};
  if (drive.name.empty()) {
    fact.text = "no block device that this machine knows";
  } else if (drive.virtual_disk) {
    fact.text = drive.name + ", a virtual disk: its rate is what the host grants";
  } else if (drive.rotating) {
    fact.verdict = Verdict::warn;
    fact.text = drive.name + ", rotating: a step takes as long as its bytes at some 0.2 GB/s";
    fact.next = kElsewhere;
  } else {
    fact.text = fmt::format("{}, {}", drive.name, drive.nvme ? "NVMe" : "solid state, not NVMe");
  }
  return fact;
}

std::vector<Fact> disk_facts(const fs::path& path) {
  const Folder folder = read_folder(path);
  if (!folder.opened.ok()) return {folder_fact(folder)};
  return {folder_fact(folder), direct_fact(folder), space_fact(folder),
          drive_fact(read_drive(folder))};
}

}  // namespace headrace::cli
