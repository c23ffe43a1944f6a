// IoSnapshot: what a queue tells of itself while its driver works on: copied out of what only the
// driver may touch.
#pragma once

#include <cstdint>
#include <string>

#include "io/io_request.h"

namespace headrace {

// Of one request.
struct IoTold {
  // Copies, when it is another request than before. Null: there is none.
  void tell(const IoRequest* request);

  std::uint64_t id = 0;  // 0: there is none
  IoWork work;
  Nanoseconds queued_at{0};
  Event after;
};

struct IoSnapshot {
  // "queue nvme0 (io_uring): 0 arriving, 1 parked, 2 started or ready, ...; in front, ..."
  std::string describe(const std::string& queue, std::size_t arriving, Nanoseconds now) const;

  std::string engine;
  std::size_t parked = 0, requests = 0, chunks = 0, bytes = 0;
  IoTold front;  // of what is in flight or ready
  IoTold parked_front;
};

}  // namespace headrace
