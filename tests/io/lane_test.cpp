#include "io/lane.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/io/lane_by_hand.h"
#include "tests/support/gate.h"

namespace headrace {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_F(ManualLane, RunsTasksFirstInFirstOut) {
  const auto lane = Lane::manual(options(0));
  const Event one = lane->run(noted(1));
  const Event two = lane->run(noted(2));
  run_out(*lane);
  EXPECT_TRUE(one.done() && two.done());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(ManualLane, ATaskThatIsReadyDoesNotOvertakeOneThatIsNot) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event one = lane->run(noted(1), gate.event());
  const Event two = lane->run(noted(2));
  EXPECT_FALSE(lane->can_start());
  gate.open();
  run_out(*lane);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_TRUE(two.done());
}

TEST_F(ManualLane, ASkippedTaskEndsWithWhatItFollows) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event skipped = lane->run(noted(1), gate.event());
  const Event next = lane->run(noted(2));
  gate.fail(Status(Code::io, "the disk broke"));
  run_out(*lane);
  EXPECT_EQ(skipped.status().message(), "the disk broke");
  EXPECT_TRUE(next.status().ok());
  EXPECT_EQ(order, std::vector<int>{2});
  EXPECT_EQ(lane->usage().failed, 1u);
}

TEST_F(ManualLane, ATasksOwnFailureIsItsEvents) {
  const auto lane = Lane::manual(options(0));
  const Event event = lane->run(task([] { return Status(Code::device, "lost"); }));
  run_out(*lane);
  EXPECT_EQ(event.status().code(), Code::device);
}

TEST_F(ManualLane, ItsEventFiresWhenItIsFinishedNotWhenItsBodyRan) {
  const auto lane = Lane::manual(options(1000));
  Task work = noted(1);
  work.bytes = 5;
  const Event event = lane->run(std::move(work));
  lane->start(true);
  EXPECT_EQ(order.size(), 1u);
  EXPECT_FALSE(event.done());
  EXPECT_EQ(lane->due(), milliseconds(5));
  clock.advance_to(milliseconds(5));
  lane->finish();
  EXPECT_TRUE(event.done());
  EXPECT_EQ(lane->due(), kForever);
}

TEST_F(ManualLane, ABodyMayRunAtTheEndOfItsTime) {
  const auto lane = Lane::manual(options(0));
  const Event event = lane->run(noted(1));
  lane->start(false);
  EXPECT_TRUE(order.empty());
  lane->finish();
  EXPECT_EQ(order.size(), 1u);
  EXPECT_TRUE(event.done());
}

TEST_F(ManualLane, ChargesBytesAtItsRateAndTheLeastTimeAsked) {
  const auto lane = Lane::manual(options(1'000'000));
  Task moved = noted(1);
  moved.bytes = 2000;
  Task slow = noted(2);
  slow.bytes = 1000;
  slow.at_least = milliseconds(7);
  const Event both = Event::all({lane->run(std::move(moved)), lane->run(std::move(slow))});
  run_out(*lane);
  EXPECT_TRUE(both.done());
  EXPECT_EQ(clock.now(), milliseconds(9));
  EXPECT_EQ(lane->usage().busy, milliseconds(9));
  EXPECT_EQ(lane->usage().written_bytes, 3000u);
  EXPECT_EQ(lane->usage().operations, 2u);
}

TEST_F(ManualLane, TellsWhomItWaitedFor) {
  const auto lane = Lane::manual(options(0));
  const Gate gate("nvme0");
  const Event event = lane->run(noted(1), gate.event());
  EXPECT_EQ(lane->describe(), "lane cpu: 1 queued, front 'task' waits for nvme0");
  clock.advance_to(microseconds(30));
  gate.open();
  run_out(*lane);
  EXPECT_TRUE(event.done());
  EXPECT_EQ(lane->usage().stalled, microseconds(30));
  EXPECT_EQ(lane->usage().waited_for.at("nvme0"), microseconds(30));
  EXPECT_EQ(lane->describe(), "");
}

TEST_F(ManualLane, TellsWhatItRuns) {
  const auto lane = Lane::manual(options(1000));
  Task work = noted(1);
  work.bytes = 100;
  work.name = "update";
  const Event event = lane->run(std::move(work));
  const Event next = lane->run(noted(2));
  lane->start(true);
  clock.advance_to(milliseconds(50));
  EXPECT_EQ(lane->describe(),
            "lane cpu: runs 'update' for 0.050 s; 1 queued, front 'task' waits for its turn");
  lane->finish();
  run_out(*lane);
  EXPECT_TRUE(event.done() && next.done());
  EXPECT_EQ(lane->describe(), "");
}

TEST_F(ManualLane, BeingBusyIsNotWaiting) {
  const auto lane = Lane::manual(options(1000));
  const Gate gate("nvme0");
  Task work = noted(1);
  work.bytes = 10;
  const Event one = lane->run(std::move(work));
  lane->start(true);
  const Event two = lane->run(noted(2), gate.event());
  clock.advance_to(milliseconds(10));
  lane->finish();
  clock.advance_to(milliseconds(13));
  gate.open();
  run_out(*lane);
  EXPECT_TRUE(one.done() && two.done());
  EXPECT_EQ(lane->usage().stalled, milliseconds(3));
}

// Of an owner whose earlier work was cancelled and has not ended.
TEST_F(ManualLane, DestroyedWithWorkQueuedItCancelsWhatHasNotStarted) {
  auto lane = Lane::manual(options(0));
  const Gate gate;
  const Event started = lane->run(noted(1));
  const Event queued = lane->run(noted(2), gate.event());
  lane->start(false);
  lane.reset();
  EXPECT_TRUE(started.status().ok());
  EXPECT_EQ(queued.status().code(), Code::cancelled);
  gate.open();  // what arrives for a lane that is gone is dropped
  EXPECT_EQ(order, std::vector<int>{1});
}

TEST_F(ManualLane, SaysThatItIsGoneFirst) {
  LaneOptions watched = options(0);
  const Lane* gone = nullptr;
  watched.on_gone = [&gone](const Lane& lane) { gone = &lane; };
  auto lane = Lane::manual(std::move(watched));
  const Lane* const address = lane.get();
  lane.reset();
  EXPECT_EQ(gone, address);
}

TEST(Lane, RunsOnAThreadOfItsOwnInOrder) {
  const auto lane = threaded_lane();
  std::vector<int> order;
  std::vector<Event> ends;
  for (int i = 0; i < 100; ++i)
    ends.push_back(lane->run(task([&order, i] {
      order.push_back(i);
      return Status();
    })));
  wait_for(Event::all(ends));
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(Lane, WaitsForWhatOtherLanesEnd) {
  const auto first = threaded_lane();
  const auto second = threaded_lane();
  const Gate gate;
  int value = 0;
  const Event set = first->run(task([&value] {
                                 value = 41;
                                 return Status();
                               }),
                               gate.event());
  const Event added = second->run(task([&value] {
                                    ++value;
                                    return Status();
                                  }),
                                  set);
  EXPECT_FALSE(added.done());
  gate.open();
  wait_for(added);
  EXPECT_EQ(value, 42);
}

TEST(Lane, TasksMayBeQueuedFromManyThreads) {
  const auto lane = threaded_lane();
  const auto other = threaded_lane();
  std::atomic<int> ran = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Event last;
      for (int i = 0; i < 200; ++i) {
        Lane& mine = i % 2 == 0 ? *lane : *other;
        last = mine.run(task([&ran] {
                          ++ran;
                          return Status();
                        }),
                        last);
      }
      wait_for(last);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, 800);
  EXPECT_EQ(lane->usage().operations, 400u);
}

TEST(Lane, DestroyedWithWorkQueuedItCancelsWhatHasNotStarted) {
  auto lane = threaded_lane();
  const Gate gate;
  const Event queued = lane->run(task(nullptr), gate.event());
  const Event behind = lane->run(task(nullptr));
  lane.reset();
  EXPECT_EQ(queued.status().code(), Code::cancelled);
  EXPECT_EQ(behind.status().code(), Code::cancelled);
  gate.open();
}

// Its thread is blocked behind the front task when that is cancelled.
// Owners come, queue behind gates that open or not, are cancelled and go, all at once.
TEST(Lane, CallsOnStartOnItsThreadFirst) {
  std::thread::id started_on;
  LaneOptions options;
  options.name = "cpu";
  options.on_start = [&started_on] { started_on = std::this_thread::get_id(); };
  const auto lane = Lane::threaded(std::move(options));
  std::thread::id ran_on;
  wait_for(lane->run(task([&] {
    ran_on = std::this_thread::get_id();
    return Status();
  })));
  EXPECT_EQ(started_on, ran_on);
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

// At least: that is no question of the machine's load.
TEST(Lane, ThrottledItTakesNoLessThanItsRateAllows) {
  LaneOptions options;
  options.name = "link";
  options.bytes_per_second = 1'000'000;
  const auto lane = Lane::threaded(std::move(options));
  const Nanoseconds begin = Clock().now();
  std::vector<Event> ends;
  for (int i = 0; i < 4; ++i) {
    Task moved = task([] { return Status(); });
    moved.bytes = 2000;
    ends.push_back(lane->run(std::move(moved)));
  }
  wait_for(Event::all(ends));
  EXPECT_GE(Clock().now() - begin, milliseconds(8));
}

}  // namespace
}  // namespace headrace
