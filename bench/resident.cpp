#include "bench/resident.h"

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace headrace::bench {
namespace {

// "VmRSS:     1234 kB" in /proc/self/status.
std::uint64_t status_bytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name)) continue;
    std::uint64_t kilobytes = 0;
    std::istringstream(line.substr(name.size())) >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t resident_bytes() { return status_bytes("VmRSS:"); }
std::uint64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

bool reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

}  // namespace headrace::bench
