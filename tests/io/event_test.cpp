#include "io/event.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

#include "tests/support/gate.h"

namespace headrace {
namespace {

Status io_error(const char* text) { return Status(Code::io, text); }

std::vector<std::uint64_t> taken(Inbox& inbox) {
  std::vector<std::uint64_t> tokens;
  inbox.take(tokens);
  return tokens;
}

bool readable(int descriptor) {
  pollfd what{descriptor, POLLIN, 0};
  return poll(&what, 1, 0) == 1;
}

TEST(Event, DefaultIsOverAndWell) {
  const Event event;
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(event.status().ok());
  EXPECT_EQ(event.waits_for(), "");
  EXPECT_EQ(event.notify(std::make_shared<Inbox>(), 1), 0u);
}

TEST(Event, IsDoneOnlyOnceItsOperationIs) {
  const Gate gate;
  const Event event = gate.event();
  EXPECT_FALSE(event.done());
  gate.open();
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(event.status().ok());
}

TEST(Event, FailedIsOverWithItsReason) {
  const Event event = Event::failed(io_error("broken"));
  EXPECT_TRUE(event.done());
  EXPECT_EQ(event.status().code(), Code::io);
  EXPECT_EQ(event.status().message(), "broken");
}

TEST(Event, CopiesAreTheSameMoment) {
  const Gate gate;
  const Event first = gate.event();
  const Event second = first;
  gate.fail(io_error("broken"));
  EXPECT_TRUE(first.done());
  EXPECT_EQ(second.status().message(), "broken");
}

TEST(Event, AllIsOverWhenTheLastOneIs) {
  const Gate a;
  const Gate b;
  const Event both = Event::all({a.event(), b.event()});
  a.open();
  EXPECT_FALSE(both.done());
  b.open();
  EXPECT_TRUE(both.done());
  EXPECT_TRUE(both.status().ok());
}

TEST(Event, AllOfNothingIsOver) {
  EXPECT_TRUE(Event::all(std::span<const Event>()).done());
  EXPECT_TRUE(Event::all({Event(), Event()}).done());
}

TEST(Event, AllReportsTheFirstFailureInListOrderWhateverFailedFirst) {
  const Gate a;
  const Gate b;
  const Gate c;
  const Event all = Event::all({a.event(), b.event(), c.event()});
  c.fail(io_error("c"));
  b.fail(io_error("b"));
  EXPECT_FALSE(all.done());
  a.open();
  EXPECT_TRUE(all.done());
  EXPECT_EQ(all.status().message(), "b");
}

TEST(Event, AllKeepsAFailureThatIsAlreadyOver) {
  const Gate gate;
  const Event all = Event::all({Event::failed(io_error("early")), gate.event()});
  EXPECT_FALSE(all.done());
  gate.open();
  EXPECT_EQ(all.status().message(), "early");
}

TEST(Event, OfManyKeepsThemAllInOrder) {
  const std::vector<Gate> gates(5);
  Event all;
  for (const Gate& gate : gates) all = Event::all({all, gate.event()});
  for (std::size_t i = gates.size(); i-- > 0;) {
    EXPECT_EQ(all.notify(std::make_shared<Inbox>(), 1), i + 1);
    EXPECT_FALSE(all.done());
    if (i == 0 || i == 3)
      gates[i].fail(io_error(i == 0 ? "first" : "fourth"));
    else
      gates[i].open();
  }
  EXPECT_TRUE(all.done());
  EXPECT_EQ(all.status().message(), "first");
}

TEST(Event, MovedFromIsOverAndWell) {
  const std::vector<Gate> gates(3);
  Event event = Event::all({gates[0].event(), gates[1].event(), gates[2].event()});
  const Event moved = std::move(event);
  EXPECT_TRUE(event.done());  // NOLINT(bugprone-use-after-move): this is what is tested
  EXPECT_EQ(moved.notify(std::make_shared<Inbox>(), 1), 3u);
}

TEST(Event, OverIsTheSameMomentAndAlwaysWell) {
  const Gate gate;
  const Event over = gate.event().over();
  EXPECT_FALSE(over.done());
  gate.fail(io_error("broken"));
  EXPECT_TRUE(over.done());
  EXPECT_TRUE(over.status().ok());
  EXPECT_TRUE(Event::failed(io_error("broken")).over().status().ok());
}

TEST(Event, OverIsKeptInsideAll) {
  const Gate contents;
  const Gate memory;
  const Event both = Event::all({memory.event().over(), contents.event()});
  memory.fail(io_error("memory's"));
  contents.fail(io_error("contents'"));
  EXPECT_EQ(both.status().message(), "contents'");
}

TEST(Event, NamesTheQueueThatItWaitsFor) {
  const Gate disk("nvme0");
  const Gate cpu("optimizer");
  const Event both = Event::all({disk.event(), cpu.event()});
  EXPECT_EQ(both.waits_for(), "nvme0");
  disk.open();
  EXPECT_EQ(both.waits_for(), "optimizer");
  cpu.open();
  EXPECT_EQ(both.waits_for(), "");
}

TEST(Event, NotifiesOnceForEachOpenOperation) {
  const Gate a;
  const Gate b;
  const Gate c;
  a.open();
  const auto inbox = std::make_shared<Inbox>();
  const Event all = Event::all({a.event(), b.event(), c.event()});
  EXPECT_EQ(all.notify(inbox, 7), 2u);
  EXPECT_TRUE(inbox->empty());
  b.open();
  c.fail(io_error("broken"));
  EXPECT_EQ(taken(*inbox), (std::vector<std::uint64_t>{7, 7}));
  EXPECT_TRUE(inbox->empty());
}

TEST(Event, NotifiesEachInboxThatAsked) {
  const Gate gate;
  const auto one = std::make_shared<Inbox>();
  const auto two = std::make_shared<Inbox>();
  EXPECT_EQ(gate.event().notify(one, 1), 1u);
  EXPECT_EQ(gate.event().over().notify(two, 2), 1u);
  gate.open();
  EXPECT_EQ(taken(*one), std::vector<std::uint64_t>{1});
  EXPECT_EQ(taken(*two), std::vector<std::uint64_t>{2});
}

TEST(Event, EndingTwiceIsABug) {
  const Gate gate;
  gate.open();
  EXPECT_DEATH(gate.open(), "");
}

TEST(Event, StatusBeforeItIsDoneIsABug) {
  const Gate gate;
  EXPECT_DEATH(static_cast<void>(gate.event().status()), "");
}

TEST(Inbox, DropsWhatArrivesOnceItIsClosed) {
  const Gate gate;
  const auto inbox = std::make_shared<Inbox>();
  EXPECT_EQ(gate.event().notify(inbox, 1), 1u);
  inbox->post(2);
  inbox->close();
  gate.open();
  EXPECT_TRUE(inbox->empty());
}

TEST(Inbox, WakesItsDescriptorOnceAndOnlyWhenAskedTo) {
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ASSERT_GE(wake, 0);
  Inbox inbox(wake);
  inbox.post(1);
  EXPECT_FALSE(inbox.wake_me());  // something is there
  inbox.post(2);
  EXPECT_FALSE(readable(wake));
  EXPECT_EQ(taken(inbox), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(inbox.wake_me());
  EXPECT_FALSE(readable(wake));
  inbox.post(3);
  inbox.post(4);
  eventfd_t count = 0;
  ASSERT_EQ(eventfd_read(wake, &count), 0);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(taken(inbox), (std::vector<std::uint64_t>{3, 4}));
  EXPECT_TRUE(inbox.wake_me());
  EXPECT_EQ(taken(inbox), std::vector<std::uint64_t>{});  // it woke by itself
  inbox.post(5);
  EXPECT_FALSE(readable(wake));
  close(wake);
}

TEST(Inbox, AWaitThatIsOverdueSaysSo) {
  Inbox inbox;
  EXPECT_FALSE(inbox.wait_until(Clock().now()));
  inbox.post(1);
  EXPECT_TRUE(inbox.wait_until(Clock().now()));
}

TEST(Inbox, ReceivesFromManyThreads) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kPosts = 500;
  const auto inbox = std::make_shared<Inbox>();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([inbox, t] {
      for (std::uint64_t i = 0; i < kPosts; ++i) {
        const Gate gate;
        const std::size_t open = gate.event().notify(inbox, t * kPosts + i);
        EXPECT_EQ(open, 1u);
        gate.open();
      }
    });
  std::vector<std::uint64_t> next(kThreads);
  for (std::uint64_t received = 0; received < kThreads * kPosts;) {
    ASSERT_TRUE(inbox->wait_until(kForever));
    for (const std::uint64_t token : taken(*inbox)) {
      EXPECT_EQ(token % kPosts, next[token / kPosts]++);  // each thread's in its order
      ++received;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace headrace
