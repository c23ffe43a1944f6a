#include "io/lane.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/gate.h"

namespace headrace {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

void wait_for(const Event& event) {
  const auto inbox = std::make_shared<Inbox>();
  std::vector<std::uint64_t> tokens;
  for (std::size_t open = event.notify(inbox, 0); open > 0; open -= tokens.size()) {
    inbox->wait_until(kForever);
    inbox->take(tokens);
  }
}

Task task(std::function<Status()> body) {
  Task made;
  made.body = std::move(body);
  return made;
}

Task owned(Owner owner, std::function<Status()> body) {
  Task made = task(std::move(body));
  made.owner = owner;
  return made;
}

std::unique_ptr<Lane> threaded_lane() {
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

TEST_F(ManualLane, CancelEndsWhatItsOwnerHasNotStartedAndNothingElse) {
  const auto lane = Lane::manual(options(0));
  const Owner mine{1};
  const Owner theirs{2};
  const auto note = [this](int number) { return noted(number).body; };
  const Event started = lane->run(owned(mine, note(1)));
  const Event dropped = lane->run(owned(mine, note(2)));
  const Event kept = lane->run(owned(theirs, note(3)));
  lane->start(false);
  lane->cancel(mine);
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
  lane->cancel(Owner{1});
  EXPECT_FALSE(lane->can_start());
  EXPECT_FALSE(dropped.done());
  gate.open();
  run_out(*lane);
  EXPECT_EQ(dropped.status().code(), Code::cancelled);
}

TEST_F(ManualLane, CancelLetsGoOfWhatTheBodyHolds) {
  const auto lane = Lane::manual(options(0));
  const Gate gate;
  const auto held = std::make_shared<int>(1);
  const Event dropped = lane->run(owned(Owner{1}, [held] { return Status(); }), gate.event());
  EXPECT_EQ(held.use_count(), 2);
  lane->cancel(Owner{1});
  EXPECT_EQ(held.use_count(), 1);
}

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

TEST(Lane, CancelledTasksEndInTheirTurn) {
  const auto lane = threaded_lane();
  const Gate gate;
  const Event dropped = lane->run(owned(Owner{1}, [] { return Status(); }), gate.event());
  lane->cancel(Owner{1});
  EXPECT_FALSE(dropped.done());
  gate.open();
  wait_for(dropped);
  EXPECT_EQ(dropped.status().code(), Code::cancelled);
}

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
