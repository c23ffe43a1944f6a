// Reads back what to_json (bench/report.h) wrote: a file that may come from anywhere.
//
// Call it from any thread; it keeps nothing. Whatever is in the file, the answer is a report whose
// fields have been checked one by one, or `invalid` naming the file and the field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "bench/machine.h"
#include "bench/report.h"
#include "io/bytes.h"
#include "io/status.h"

namespace headrace::bench {

struct ReportFile {
  Machine machine;
  std::vector<Row> rows;  // names differ; numbers are finite and not negative
};

// Larger files are refused unread: a report has some kilobytes.
constexpr std::uint64_t kLargestReport = 4 * kMiB;

// Fields that it does not know are passed over. A bound, ratio or CPU time of null is 0; samples of
// null (what to_json makes of infinity) are left out.
Result<ReportFile> read_report(const std::filesystem::path& path);

}  // namespace headrace::bench
