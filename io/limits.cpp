#include "io/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>
#include <vector>

namespace headrace {
namespace {

namespace fs = std::filesystem;

// Cgroup v1 says "no limit" with the largest multiple of the page size; nothing real is as large.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::uint64_t> number(const std::string& text) {
  std::istringstream stream(text);
  std::uint64_t value = 0;
  if (text.starts_with('-') || !(stream >> value)) return std::nullopt;  // "max", "-1"
  return value;
}

// The number in a file that holds one, unless it stands for "no limit".
std::optional<std::uint64_t> limit_in(const fs::path& path) {
  const auto line = first_line(path);
  const auto value = line ? number(*line) : std::nullopt;
  return value && *value < kNoLimit ? value : std::nullopt;
}

// The value after `key` in a file of "key value" lines, as in memory.stat and meminfo; 0 without
// one.
std::uint64_t value_of(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return 0;
}

bool lists(std::string_view controllers, std::string_view wanted) {
  for (std::size_t begin = 0; begin <= controllers.size();) {
    const std::size_t end = std::min(controllers.find(',', begin), controllers.size());
    if (controllers.substr(begin, end - begin) == wanted) return true;
    begin = end + 1;
  }
  return false;
}

// A cgroup of this process, in the hierarchy of one controller.
struct Membership {
  bool v2;
  fs::path mount;  // the hierarchy's root
  fs::path path;   // below it
};

// From the lines "id:controllers:path" of /proc/self/cgroup; the v2 line is "0::path". On machines
// that mount both, v2 lies in `unified` and has no controllers of ours.
std::vector<Membership> memberships(const SystemRoots& roots, std::string_view controller) {
  std::vector<Membership> found;
  std::ifstream file(roots.proc / "self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path path = fs::path(line.substr(second + 1)).relative_path();
    if (controllers.empty()) {
      found.push_back({true, roots.cgroup, path});
    } else if (lists(controllers, controller)) {
      const fs::path joint = roots.cgroup / controllers;
      found.push_back({false, fs::exists(joint) ? joint : roots.cgroup / controller, path});
    }
  }
  return found;
}

// Calls `visit` with the cgroup's folder and every folder above it up to the mount. Inside a
// container the path is often the host's and does not exist here: then the mount itself is the
// container's cgroup.
void for_each_level(const Membership& member, const std::function<void(const fs::path&)>& visit) {
  for (fs::path path = member.path; !path.empty(); path = path.parent_path())
    visit(member.mount / path);
  visit(member.mount);
}

std::optional<MemoryLimit> limit_of(const fs::path& folder, const fs::path& limit,
                                    const fs::path& usage, std::string_view droppable) {
  const auto bytes = limit_in(folder / limit);
  if (!bytes) return std::nullopt;
  const std::uint64_t used = limit_in(folder / usage).value_or(0);
  const std::uint64_t cache = std::min(used, value_of(folder / "memory.stat", droppable));
  return MemoryLimit{*bytes, *bytes - std::min(*bytes, used - cache), (folder / limit).string()};
}

void keep_tighter(std::optional<MemoryLimit>& best, std::optional<MemoryLimit> next) {
  if (next && (!best || next->left_bytes < best->left_bytes)) best = std::move(next);
}

std::optional<double> quota_of(const fs::path& folder, bool v2) {
  std::optional<std::uint64_t> quota, period;
  if (v2) {  // "max 100000" or "150000 100000"
    std::istringstream words(first_line(folder / "cpu.max").value_or(""));
    std::string first, second;
    words >> first >> second;
    quota = number(first);
    period = number(second);
  } else {
    quota = limit_in(folder / "cpu.cfs_quota_us");
    period = limit_in(folder / "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace

std::optional<MemoryLimit> cgroup_memory(const SystemRoots& roots) {
  std::optional<MemoryLimit> best;
  for (const Membership& member : memberships(roots, "memory")) {
    for_each_level(member, [&](const fs::path& folder) {
      if (member.v2) {  // above `high` the kernel slows a process down until it crawls
        keep_tighter(best, limit_of(folder, "memory.max", "memory.current", "inactive_file"));
        keep_tighter(best, limit_of(folder, "memory.high", "memory.current", "inactive_file"));
      } else {
        keep_tighter(best, limit_of(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                    "total_inactive_file"));
      }
    });
  }
  return best;
}

std::optional<double> cgroup_cpus(const SystemRoots& roots) {
  std::optional<double> lowest;
  for (const Membership& member : memberships(roots, "cpu")) {
    for_each_level(member, [&](const fs::path& folder) {
      const auto quota = quota_of(folder, member.v2);
      if (quota) lowest = std::min(*quota, lowest.value_or(*quota));
    });
  }
  return lowest;
}

std::uint64_t total_memory_bytes(const SystemRoots& roots) {
  return value_of(roots.proc / "meminfo", "MemTotal:") * 1024;
}

std::uint64_t available_memory_bytes(const SystemRoots& roots) {
  const std::uint64_t machine = value_of(roots.proc / "meminfo", "MemAvailable:") * 1024;
  const auto cgroup = cgroup_memory(roots);
  return cgroup ? std::min(machine, cgroup->left_bytes) : machine;
}

std::optional<std::uint64_t> memlock_limit_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace headrace
