// An operation that ends when the test says so: what a queue's work can be made to wait for.
#pragma once

#include <memory>
#include <string>

#include "io/event_source.h"

namespace headrace {

class Gate {
 public:
  explicit Gate(std::string name = "gate")
      : source_(std::make_shared<const std::string>(std::move(name))) {}

  Event event() const { return source_.event(); }
  void open() const { source_.complete({}); }
  void fail(Status why) const { source_.complete(std::move(why)); }

 private:
  EventSource source_;
};

}  // namespace headrace
