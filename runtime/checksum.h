// XXH3-64 (xxHash's 64-bit hash, seed 0) of bytes: whole, or as they come.
//
// Finds what a disk or a cable changed, not what an enemy did. Any thread; nothing fails.
#pragma once

#include <cstdint>
#include <memory>

#include "io/bytes.h"

namespace headrace {

std::uint64_t checksum(ConstBytes bytes) noexcept;

// The checksum of all bytes given since the last reset(). Move-only; moved-from may only be
// assigned to or destroyed.
class StreamingChecksum {
 public:
  StreamingChecksum();
  StreamingChecksum(StreamingChecksum&&) noexcept;
  StreamingChecksum& operator=(StreamingChecksum&&) noexcept;
  ~StreamingChecksum();

  void reset();
  void update(ConstBytes bytes);
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headrace
