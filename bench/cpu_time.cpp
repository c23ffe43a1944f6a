#include "bench/cpu_time.h"

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace headrace::bench {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double kernel_worker_seconds() {
  std::uint64_t nanoseconds = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    std::uint64_t ran = 0;
    if (name.starts_with("iou-wrk") && std::ifstream(task.path() / "schedstat") >> ran) {
      nanoseconds += ran;
    }
  }
  return static_cast<double>(nanoseconds) / 1e9;
}

}  // namespace headrace::bench
