// EventSource: the one right to end one Event. Held by the queue that owns the operation (Lane,
// IoQueue, a device), and by nothing else: there are no promises above io/.
#pragma once

#include "io/event.h"

namespace headrace {

class EventSource {
 public:
  // `queue` names the owner in reports; shared by all of its operations.
  explicit EventSource(std::shared_ptr<const std::string> queue);

  Event event() const;
  // Ends the event, once. Posts to whoever waits; runs no code of theirs.
  void complete(Status how) const;

 private:
  std::shared_ptr<Moment> moment_;
};

}  // namespace headrace
