// What the kernel's scheduler is told of a thread that does little and that much waits for.
#pragma once

namespace headrace {

// From now on the calling thread runs for a tenth of a millisecond at a time, and in return soon
// after it wakes, even on a CPU that another thread computes on. By what the scheduler calls a
// slice: no privilege is needed, and its share of the CPU stays what it was. A kernel that knows no
// slices (before Linux 6.12), or refuses them, leaves the thread as it is.
void take_short_turns() noexcept;

}  // namespace headrace
