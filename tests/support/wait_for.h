// Blocks until an event is over, where there is no platform to wait with.
#pragma once

#include <memory>
#include <vector>

#include "io/event.h"

namespace headrace {

inline void wait_for(const Event& event) {
  const auto inbox = std::make_shared<Inbox>();
  std::vector<std::uint64_t> tokens;
  for (std::size_t open = event.notify(inbox, 0); open > 0; open -= tokens.size()) {
    inbox->wait_until(kForever);
    inbox->take(tokens);
  }
}

}  // namespace headrace
