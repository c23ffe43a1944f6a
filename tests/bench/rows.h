// The rows of a report, by name.
#pragma once

#include <map>
#include <string>

#include "bench/report.h"

namespace headrace::bench {

inline std::map<std::string, Row> by_name(const Report& report) {
  std::map<std::string, Row> rows;
  for (const Row& row : report.rows) rows[row.name] = row;
  return rows;
}

}  // namespace headrace::bench
