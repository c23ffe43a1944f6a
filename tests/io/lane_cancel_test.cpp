// Work that is dropped from a lane, and what is queued behind it.
#include "io/lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/io/lane_by_hand.h"
#include "tests/support/gate.h"

namespace headrace {
namespace {

TEST_F(ManualLane, CancelEndsWhatItsOwnerHasNotStartedAndNothingElse) {
  const auto lane = Lane::manual(options(0));
  const Owner mine{1};
  const Owner theirs{2};
  const auto note = [this](int number) { return noted(number).body; };
  const Event started = lane->run(owned(mine, note(1)));
  const Event dropped = lane->run(owned(mine, note(2)));
  const Event kept = lane->run(owned(theirs, note(3)));
  lane->start(false);
  static_cast<void>(lane->cancel(mine));
  lane->finish();
  run_out(*lane);
  EXPECT_TRUE(started.status().ok());
  EXPECT_EQ(dropped.status().code(), Code::cancelled);
  EXPECT_TRUE(kept.status().ok());
  EXPECT_EQ(order, (std::vector<int>{1, 3}));
}

TEST_F(ManualLane, ACancelledTaskEndsNoSoonerThanWhatItFollows) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event dropped = lane->run(owned(Owner{1}, nullptr), gate.event());
  static_cast<void>(lane->cancel(Owner{1}));
  EXPECT_FALSE(lane->can_start());
  EXPECT_FALSE(dropped.done());
  gate.open();
  run_out(*lane);
  EXPECT_EQ(dropped.status().code(), Code::cancelled);
}

TEST_F(ManualLane, WhatWasCancelledHoldsUpNobodyElse) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event front = lane->run(owned(Owner{1}, noted(1).body), gate.event());
  const Event next = lane->run(owned(Owner{1}, noted(2).body));
  const Event theirs = lane->run(owned(Owner{2}, noted(3).body));
  static_cast<void>(lane->cancel(Owner{1}));
  run_out(*lane);
  EXPECT_TRUE(theirs.done());
  EXPECT_FALSE(front.done() || next.done());
  EXPECT_NE(lane->describe().find("3 cancelled, front 'task' waits for gate"), std::string::npos)
      << lane->describe();
  gate.open();
  run_out(*lane);
  EXPECT_EQ(front.status().code(), Code::cancelled);
  EXPECT_EQ(next.status().code(), Code::cancelled);
  EXPECT_EQ(order, std::vector<int>{3});
}

TEST_F(ManualLane, WhatAnOwnerQueuesAfterACancelComesAfterWhatWasCancelled) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event dropped = lane->run(owned(Owner{1}, noted(1).body), gate.event());
  const Event quiet = lane->cancel(Owner{1});
  const Event later = lane->run(owned(Owner{1}, noted(2).body));
  const Event theirs = lane->run(owned(Owner{2}, noted(3).body));
  run_out(*lane);
  EXPECT_TRUE(theirs.done());
  EXPECT_FALSE(quiet.done() || later.done());
  gate.open();
  run_out(*lane);
  EXPECT_TRUE(quiet.done() && dropped.done());
  EXPECT_TRUE(later.status().ok());
  EXPECT_EQ(order, (std::vector<int>{3, 2}));
}

TEST_F(ManualLane, CancelCanBeCalledAgain) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event first = lane->run(owned(Owner{1}, noted(1).body), gate.event());
  static_cast<void>(lane->cancel(Owner{1}));
  const Event second = lane->run(owned(Owner{1}, noted(2).body));
  const Event quiet = lane->cancel(Owner{1});
  gate.open();
  run_out(*lane);
  EXPECT_EQ(first.status().code(), Code::cancelled);
  EXPECT_EQ(second.status().code(), Code::cancelled);
  EXPECT_TRUE(quiet.done());
  EXPECT_TRUE(order.empty());
  EXPECT_TRUE(lane->run(noted(3)).waits_for() == "cpu" && lane->can_start());
}

TEST_F(ManualLane, ACancelIsOverWhenTheRunningTaskIs) {
  const auto lane = Lane::manual(options(0));
  const Event running = lane->run(owned(Owner{1}, noted(1).body));
  lane->start(false);
  const Event quiet = lane->cancel(Owner{1});
  EXPECT_FALSE(lane->can_start());
  lane->finish();
  EXPECT_TRUE(running.status().ok());
  EXPECT_FALSE(quiet.done());
  run_out(*lane);
  EXPECT_TRUE(quiet.done());
}

TEST_F(ManualLane, CancelLetsGoOfWhatTheBodyHolds) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const auto held = std::make_shared<int>(1);
  const Event dropped = lane->run(owned(Owner{1}, [held] { return Status(); }), gate.event());
  EXPECT_EQ(held.use_count(), 2);
  static_cast<void>(lane->cancel(Owner{1}));
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Lane, CancelledTasksEndInTheirTurn) {
  const auto lane = threaded_lane();
  const Gate gate;
  const Event dropped = lane->run(owned(Owner{1}, [] { return Status(); }), gate.event());
  static_cast<void>(lane->cancel(Owner{1}));
  EXPECT_FALSE(dropped.done());
  gate.open();
  wait_for(dropped);
  EXPECT_EQ(dropped.status().code(), Code::cancelled);
}

TEST(Lane, WhatWasCancelledHoldsUpNobodyElse) {
  const auto lane = threaded_lane();
  const Gate gate;
  const Event dropped = lane->run(owned(Owner{1}, nullptr), gate.event());
  const Event theirs = lane->run(owned(Owner{2}, nullptr));
  const Event quiet = lane->cancel(Owner{1});
  wait_for(theirs);
  EXPECT_FALSE(dropped.done() || quiet.done());
  gate.open();
  wait_for(quiet);
  EXPECT_TRUE(dropped.done());
}

TEST(Lane, OwnersMayBeCancelledFromManyThreads) {
  const auto lane = threaded_lane();
  const auto other = threaded_lane();
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      const Owner owner{t};
      for (int i = 0; i < 50; ++i) {
        const Event before = other->run(owned(owner, nullptr));
        const Event mine = lane->run(owned(owner, nullptr), before);
        if (i % 3 == 0) wait_for(mine);
        wait_for(lane->cancel(owner));
        ended += mine.done() ? 1 : 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 200);
}

}  // namespace
}  // namespace headrace
