// Tasks that yield: whom they let go first, and what they never keep waiting.
#include "io/lane.h"

#include <gtest/gtest.h>

#include <future>

#include "tests/io/lane_by_hand.h"
#include "tests/support/gate.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;

Task yielding(Task task) {
  task.yields = true;
  return task;
}

TEST_F(ManualLane, ATaskThatYieldsLetsOthersGoFirst) {
  const auto lane = Lane::manual(options(0));
  const Event one = lane->run(yielding(noted(1)));
  const Event two = lane->run(yielding(noted(2)));
  const Event three = lane->run(noted(3));
  run_out(*lane);
  EXPECT_TRUE(one.done() && two.done() && three.done());
  EXPECT_EQ(order, (std::vector<int>{3, 1, 2}));
}

TEST_F(ManualLane, ATaskThatYieldsGoesWhileOthersWait) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event waits = lane->run(noted(1), gate.event());
  const Event behind_it = lane->run(noted(2));
  const Event first = lane->run(yielding(noted(3)));
  const Event second = lane->run(yielding(noted(4)), first);
  lane->start(true);
  gate.open();
  lane->finish();
  run_out(*lane);
  EXPECT_TRUE(waits.done() && behind_it.done() && second.done());
  EXPECT_EQ(order, (std::vector<int>{3, 1, 2, 4}));
}

TEST_F(ManualLane, AmongThoseThatYieldNoneOvertakes) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event one = lane->run(yielding(noted(1)), gate.event());
  const Event two = lane->run(yielding(noted(2)));
  EXPECT_FALSE(lane->can_start());
  EXPECT_EQ(lane->describe(), "lane cpu: 2 that yield, front 'task' waits for gate");
  gate.open();
  run_out(*lane);
  EXPECT_TRUE(two.done());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

// Of a lane that is never idle those that yield have a part.
TEST_F(ManualLane, ATaskYieldsToTwiceItsBytesAndNoMore) {
  const auto lane = Lane::manual(options(1000));
  std::vector<Event> all;
  for (int i = 0; i < 8; ++i) {
    for (const bool yields : {true, false}) {
      Task work = noted(yields ? 100 + i : i);
      work.bytes = 10;
      work.yields = yields;
      all.push_back(lane->run(std::move(work)));
    }
  }
  run_out(*lane);
  EXPECT_TRUE(Event::all(all).done());
  EXPECT_EQ(order,
            (std::vector<int>{0, 1, 2, 100, 3, 4, 5, 101, 6, 7, 102, 103, 104, 105, 106, 107}));
}

TEST_F(ManualLane, EachLineMayFollowTheOther) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event one = lane->run(yielding(noted(1)), gate.event());
  const Event two = lane->run(noted(2), one);
  const Event three = lane->run(yielding(noted(3)), two);
  const Event four = lane->run(noted(4), three);
  gate.open();
  run_out(*lane);
  EXPECT_TRUE(four.done());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

// What comes and goes while another one waits takes nothing from the time it has waited.
TEST_F(ManualLane, AWaitGoesOnUnderWhatYields) {
  const auto lane = Lane::manual(options(1000));
  const Gate gate("nvme0");
  const Event waits = lane->run(noted(1), gate.event());
  clock.advance_to(milliseconds(7));
  Task filler = yielding(noted(2));
  filler.bytes = 10;
  const Event fills = lane->run(std::move(filler));
  run_out(*lane);
  clock.advance_to(milliseconds(20));
  gate.open();
  run_out(*lane);
  EXPECT_TRUE(waits.done() && fills.done());
  EXPECT_EQ(lane->usage().stalled, milliseconds(10));
  EXPECT_EQ(lane->usage().waited_for.at("nvme0"), milliseconds(10));
}

TEST_F(ManualLane, WorkingOnWhatYieldsIsNotWaiting) {
  const auto lane = Lane::manual(options(1000));
  const Gate gate("nvme0");
  Task filler = yielding(noted(1));
  filler.bytes = 10;
  const Event two = lane->run(noted(2), gate.event());
  const Event one = lane->run(std::move(filler));
  clock.advance_to(milliseconds(2));
  lane->start(true);
  clock.advance_to(lane->due());
  lane->finish();
  clock.advance_to(milliseconds(15));
  gate.open();
  run_out(*lane);
  EXPECT_TRUE(one.done() && two.done());
  EXPECT_EQ(lane->usage().busy, milliseconds(10));
  EXPECT_EQ(lane->usage().stalled, milliseconds(5));
  EXPECT_EQ(lane->usage().waited_for.at("nvme0"), milliseconds(5));
}

TEST_F(ManualLane, WhatIsCancelledEndsInTheOrderItWasQueuedWhetherItYieldsOrNot) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Owner mine{1};
  const Event one = lane->run(owned(mine, nullptr), gate.event());
  const Event two = lane->run(yielding(owned(mine, nullptr)));
  const Event three = lane->run(owned(mine, nullptr));
  const Event theirs = lane->run(yielding(noted(4)));
  const Event cancelled = lane->cancel(mine);
  run_out(*lane);
  EXPECT_TRUE(theirs.done());
  EXPECT_FALSE(two.done() || three.done());  // they stand behind the one that waits
  gate.open();
  run_out(*lane);
  for (const Event& event : {one, two, three}) EXPECT_EQ(event.status().code(), Code::cancelled);
  EXPECT_TRUE(cancelled.done());
  EXPECT_EQ(order, std::vector<int>{4});
}

TEST_F(ManualLane, DestroyedItCancelsWhatYieldsToo) {
  auto lane = Lane::manual(options(0));
  const Event one = lane->run(yielding(noted(1)));
  lane.reset();
  EXPECT_EQ(one.status().code(), Code::cancelled);
}

// What became ready while one that yields was running goes before the next that yields.
TEST(Lane, WithAThreadItFillsTheWaitOfOneWithWhatYieldsAndNoLonger) {
  const std::unique_ptr<Lane> lane = threaded_lane();
  const Gate gate;
  std::promise<void> started;
  std::promise<void> go_on;
  std::vector<int> order;
  const auto note = [&order](int number) {
    order.push_back(number);
    return Status();
  };
  const Event waits = lane->run(task([&] { return note(1); }), gate.event());
  const Event fills = lane->run(yielding(task([&] {
    started.set_value();
    go_on.get_future().wait();
    return note(2);
  })));
  const Event last = lane->run(yielding(task([&] { return note(3); })));
  started.get_future().wait();
  gate.open();
  go_on.set_value();
  wait_for(Event::all({waits, fills, last}));
  EXPECT_EQ(order, (std::vector<int>{2, 1, 3}));
}

// The lane watches the fronts of both lines; of those that were set aside only one is in front.
TEST(Lane, WithAThreadItCountsWhatIsOverForBothItSetAside) {
  const std::unique_ptr<Lane> lane = threaded_lane();
  const Gate gate;
  const Gate other;
  const Owner mine{1};
  const Event one = lane->run(owned(mine, nullptr), gate.event());
  const Event two = lane->run(yielding(owned(mine, nullptr)), other.event());
  wait_for(lane->cancel(Owner{2}));  // by now both are watched
  const Event cancelled = lane->cancel(mine);
  other.open();
  wait_for(lane->cancel(Owner{2}));
  gate.open();
  wait_for(cancelled);
  EXPECT_EQ(one.status().code(), Code::cancelled);
  EXPECT_EQ(two.status().code(), Code::cancelled);
}

}  // namespace
}  // namespace headrace
