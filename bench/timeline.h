// What the queues of a platform did during one step, taken from its trace: when reads, updates and
// writes were under way, and how many of them at once.
//
// Call it from any thread once the step is over; what it hands back stands alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/trace.h"

namespace headrace::bench {

// From `seconds` after the step's begin on, so many operations were under way.
struct Level {
  double seconds = 0;
  int count = 0;
};

// All operations of one name.
struct Activity {
  std::string name;           // as the trace has it: load, update, store
  std::vector<Level> levels;  // in order of time; ends with a count of 0
  int most = 0;               // under way at once
  double busy_seconds = 0;    // with any of them under way
  std::uint64_t bytes = 0;    // of all of them, also of those that lie in part outside
};

struct Timeline {
  std::string name;  // of the row
  double seconds = 0;
  std::vector<Activity> activities;  // compute, load, update, checksum, store, others
};

// What lies between the two times. Activities of less than a thousandth of it are left out.
Timeline timeline_of(const Trace& trace, std::string name, Nanoseconds begin, Nanoseconds end);

}  // namespace headrace::bench
