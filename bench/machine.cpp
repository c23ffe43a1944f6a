#include "bench/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace headrace::bench {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string cpu_model() {
  std::istringstream lines(text_of("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

std::uint64_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0
             ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
             : 0;
}

std::string kernel_release() {
  utsname facts{};
  return uname(&facts) == 0 ? facts.release : "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[sizeof "2000-01-01T00:00:00Z"];
  return std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0 ? text : "unknown";
}

std::string compiler_name() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

bool holds(const std::filesystem::path& mount_point, const std::filesystem::path& path) {
  const auto [end, unused] =
      std::mismatch(mount_point.begin(), mount_point.end(), path.begin(), path.end());
  return end == mount_point.end() || (std::next(end) == mount_point.end() && end->empty());
}

}  // namespace

Mount mount_of(const std::filesystem::path& path, std::string_view mounts) {
  Mount best{"unknown", "unknown"};
  std::size_t longest = 0;
  std::istringstream lines{std::string(mounts)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string device, point, type;
    words >> device >> point >> type;
    if (point.size() < longest || type.empty() || !holds(point, path)) continue;
    longest = point.size();
    best = {device, type};
  }
  return best;
}

Machine this_machine(const std::filesystem::path& folder) {
  std::error_code ignored;
  const Mount mount =
      mount_of(std::filesystem::weakly_canonical(folder, ignored), text_of("/proc/self/mounts"));
  return {.cpu = cpu_model(),
          .cores = allowed_cores(),
          .memory_bytes = physical_memory(),
          .kernel = kernel_release(),
          .disk = mount.device,
          .file_system = mount.type,
          .date = utc_now(),
          .version = HEADRACE_VERSION,
          .compiler = compiler_name()};
}

}  // namespace headrace::bench
