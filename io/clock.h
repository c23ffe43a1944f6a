// The time that a platform lives in: the machine's steady clock, or a virtual one that only the
// simulation moves. Safe to read from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace headrace {

using Nanoseconds = std::chrono::nanoseconds;

// Longer than any wait; as a deadline: none.
constexpr Nanoseconds kForever = Nanoseconds::max();

class Clock {
 public:
  enum class Kind : std::uint8_t { real, simulated };
  explicit Clock(Kind kind = Kind::real) : kind_(kind) {}

  bool simulated() const noexcept { return kind_ == Kind::simulated; }

  // Since an arbitrary start.
  Nanoseconds now() const noexcept {
    return simulated() ? Nanoseconds(virtual_ns_.load(std::memory_order_relaxed))
                       : std::chrono::steady_clock::now().time_since_epoch();
  }

  // Simulated clocks only: never backwards.
  void advance_to(Nanoseconds time) noexcept {
    if (time > now()) virtual_ns_.store(time.count(), std::memory_order_relaxed);
  }

 private:
  Kind kind_;
  std::atomic<std::int64_t> virtual_ns_{0};
};

// now + timeout without overflow.
constexpr Nanoseconds deadline_after(Nanoseconds now, Nanoseconds timeout) noexcept {
  return timeout >= kForever - now ? kForever : now + timeout;
}

}  // namespace headrace
