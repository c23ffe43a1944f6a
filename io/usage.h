// What a resource (a lane, a stream, an I/O queue) did with its time and how much it moved.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "io/clock.h"

namespace headrace {

struct Usage {
  std::string name;
  std::uint64_t operations = 0;
  std::uint64_t failed = 0;  // ended with a failure of their own or of what they followed
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  Nanoseconds busy{0};     // at work
  Nanoseconds stalled{0};  // had work queued, but all of it waited for another resource
  std::map<std::string, Nanoseconds> waited_for;  // `stalled`, by the resource it waited for
};

}  // namespace headrace
