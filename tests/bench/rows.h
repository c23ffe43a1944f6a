// A machine for reports, and the rows of one by name.
#pragma once

#include <map>
#include <string>

#include "bench/machine.h"
#include "bench/report.h"

namespace headrace::bench {

inline Machine some_machine() {
  return {.cpu = "A \"quoted\" CPU",
          .cores = 2,
          .memory_bytes = 25'000'000'000,
          .kernel = "6.1.0",
          .disk = "/dev/nvme0n1",
          .file_system = "ext4",
          .date = "2026-01-02T03:04:05Z",
          .version = "0.1.0",
          .compiler = "gcc 12.2.0"};
}

inline std::map<std::string, Row> by_name(const Report& report) {
  std::map<std::string, Row> rows;
  for (const Row& row : report.rows) rows[row.name] = row;
  return rows;
}

}  // namespace headrace::bench
