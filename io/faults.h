// Engines that change what another engine does: for tests, for trying out a slower disk, and for
// the benchmark of the schedule against a known rate.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "io/io_engine.h"

namespace headrace {

enum class FaultKind : std::uint8_t {
  error,            // ends with -errno_value, nothing moved
  short_transfer,   // moves `amount` bytes
  zero_progress,    // ends with 0, nothing moved
  delay,            // completes `time` later
  never_completes,  // moves, and never says so
  bit_flip,         // flips bit `amount` of the bytes (read: in memory; written: in the file)
  lost_write,       // says that all is written, and writes nothing
};

// Strikes transfers of `direction`, counted from 0 over all of them: number `first` and, `every`
// not 0, each `every`-th after it; `times` times in all.
struct Fault {
  FaultKind kind = FaultKind::error;
  Direction direction = Direction::read;
  std::uint64_t first = 0;
  std::uint64_t every = 0;
  std::uint64_t times = 1;
  int errno_value = 5;  // EIO
  std::uint64_t amount = 0;
  Nanoseconds time{0};
};

// What is to go wrong; may be changed from any thread while the engine runs. Shared with it.
class FaultScript {
 public:
  void add(const Fault& fault);
  void clear();
  std::uint64_t struck() const;
  // Transfers of this direction so far: what Fault::first counts.
  std::uint64_t seen(Direction direction) const;

  // For the engine: the fault that strikes this transfer, if any; counts it.
  bool next(Direction direction, Fault& fault);

 private:
  struct Armed {
    Fault fault;
    std::uint64_t left;
  };
  mutable std::mutex mutex_;
  std::vector<Armed> armed_;    // guarded by mutex_
  std::uint64_t seen_[3] = {};  // guarded by mutex_; by direction
  std::uint64_t struck_ = 0;    // guarded by mutex_
};

std::unique_ptr<IoEngine> faulty_engine(std::unique_ptr<IoEngine> inner,
                                        std::shared_ptr<FaultScript> script,
                                        Clock* clock = nullptr);

// A disk of known speed: completions are held back until a serial server of these rates would have
// ended them. 0: not limited.
struct RateLimit {
  std::uint64_t read_bytes_per_second = 0;
  std::uint64_t write_bytes_per_second = 0;
  Nanoseconds latency{0};
};
std::unique_ptr<IoEngine> rate_limited_engine(std::unique_ptr<IoEngine> inner, RateLimit limit,
                                              Clock* clock = nullptr);

}  // namespace headrace
