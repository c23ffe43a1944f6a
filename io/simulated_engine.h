// An engine whose drive is a SimulatedDisk and a serial server in virtual time: transfers pass
// through it one after the other at the rates of their direction, and their latencies overlap.
//
// The seed varies the order of completions and whether the bytes of a transfer move when it is
// submitted or when it completes, so that memory used too early or let go too soon is caught.
#pragma once

#include <memory>

#include "io/io_engine.h"
#include "io/simulated_disk.h"

namespace headrace {

struct SimulatedDrive {
  std::uint64_t read_bytes_per_second = 0;  // 0: takes no time
  std::uint64_t write_bytes_per_second = 0;
  Nanoseconds latency{0};  // up to an eighth more, as the seed says
  std::uint64_t seed = 1;
};

// The clock must outlive the engine.
std::unique_ptr<IoEngine> simulated_engine(std::shared_ptr<SimulatedDisk> disk,
                                           const SimulatedDrive& drive, const Clock& clock);

}  // namespace headrace
