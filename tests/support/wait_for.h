// Blocks until an event is over, where there is no platform to wait with. Ends the test program
// when that takes two minutes: a wake was lost.
#pragma once

#include <memory>
#include <vector>

#include "io/check.h"
#include "io/clock.h"
#include "io/event.h"

namespace headrace {

inline void wait_for(const Event& event) {
  const auto inbox = std::make_shared<Inbox>();
  std::vector<std::uint64_t> tokens;
  const Nanoseconds deadline = Clock().now() + std::chrono::minutes(2);
  for (std::size_t open = event.notify(inbox, 0); open > 0; open -= tokens.size()) {
    HEADRACE_CHECK(inbox->wait_until(deadline));
    inbox->take(tokens);
  }
}

}  // namespace headrace
