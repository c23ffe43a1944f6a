// An eventfd as a doorbell: rung from any thread, heard by the one that polls it.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "io/check.h"

namespace headrace {

inline void wake(int event_fd) {
  const std::uint64_t one = 1;
  while (::write(event_fd, &one, sizeof one) < 0) {
    if (errno == EAGAIN) return;  // has been ringing for long
    HEADRACE_CHECK(errno == EINTR);
  }
}

// Only when it is readable, or does not block.
inline void drain_wake(int event_fd) {
  std::uint64_t count = 0;
  while (::read(event_fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace headrace
