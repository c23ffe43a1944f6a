// Lanes in tests: stepped by hand in virtual time, or with a thread.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "io/lane.h"
#include "tests/support/wait_for.h"

namespace headrace {

inline Task task(std::function<Status()> body) {
  Task made;
  made.body = std::move(body);
  return made;
}

inline Task owned(Owner owner, std::function<Status()> body) {
  Task made = task(std::move(body));
  made.owner = owner;
  return made;
}

inline std::unique_ptr<Lane> threaded_lane() {
  LaneOptions options;
  options.name = "cpu";
  return Lane::threaded(std::move(options));
}

// A lane stepped by hand, in virtual time.
class ManualLane : public testing::Test {
 protected:
  LaneOptions options(std::uint64_t rate) {
    LaneOptions made;
    made.name = "cpu";
    made.clock = &clock;
    made.bytes_per_second = rate;
    return made;
  }
  // Runs all that can run, to its end in virtual time.
  void run_out(Lane& lane) {
    while (lane.can_start()) {
      lane.start(true);
      clock.advance_to(lane.due());
      lane.finish();
    }
  }
  Task noted(int number) {
    return task([this, number] {
      order.push_back(number);
      return Status();
    });
  }

  Clock clock{Clock::Kind::simulated};
  std::vector<int> order;
};

}  // namespace headrace
