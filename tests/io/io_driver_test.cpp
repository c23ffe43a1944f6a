// Cancelling, closing, and the driver's own thread.
#include "io/io_driver.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <fstream>
#include <thread>

#include "tests/io/queue_by_hand.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait_for.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using IoDriverTest = QueueByHand;

TEST_F(IoDriverTest, CancelDropsWhatItsOwnerHasNotStarted) {
  options.in_flight_chunks = 1;
  open();
  const Owner mine{1};
  const Owner theirs{2};
  const Event started = read(1, {}, tagged(IoClass::state_read, mine));
  const Event queued = read(1, {}, tagged(IoClass::state_read, mine));
  const Event kept = read(1, {}, tagged(IoClass::state_read, theirs));
  pump();
  queue->cancel(mine);
  pump();
  EXPECT_EQ(queued.status().code(), Code::cancelled);
  EXPECT_FALSE(started.done());
  run_out();
  EXPECT_TRUE(started.status().ok());
  EXPECT_TRUE(kept.status().ok());
}

TEST_F(IoDriverTest, ACancelledRequestThatIsParkedEndsWithWhatItFollows) {
  const Gate gate;
  const Event parked = read(1, gate.event(), tagged(IoClass::state_read, Owner{1}));
  pump();
  queue->cancel(Owner{1});
  pump();
  EXPECT_FALSE(parked.done());
  gate.open();
  run_out();
  EXPECT_EQ(parked.status().code(), Code::cancelled);
  EXPECT_TRUE(engine->submitted.empty());
}

TEST_F(IoDriverTest, OfACancelledRequestThatHasStartedNothingMoreIsSent) {
  options.in_flight_chunks = 2;
  open();
  const Event event = read(8, {}, tagged(IoClass::state_read, Owner{1}));
  pump();
  queue->cancel(Owner{1});
  pump();
  EXPECT_FALSE(event.done());
  run_out();
  EXPECT_EQ(engine->submitted.size(), 2u);
  EXPECT_EQ(event.status().code(), Code::cancelled);
}

TEST_F(IoDriverTest, CancelReachesWhatAFullEngineHasNotTaken) {
  engine->most_in_flight = 1;
  const Event started = read(1, {}, tagged(IoClass::state_read, Owner{1}));
  const Event waiting = read(1, {}, tagged(IoClass::state_read, Owner{1}));
  const Event in_part = read(2, {}, tagged(IoClass::state_read, Owner{1}));
  const Event kept = write(1);
  pump();
  queue->cancel(Owner{1});
  pump();
  EXPECT_EQ(waiting.status().code(), Code::cancelled);
  EXPECT_EQ(in_part.status().code(), Code::cancelled);
  EXPECT_FALSE(started.done());
  run_out();
  EXPECT_TRUE(started.status().ok());
  EXPECT_TRUE(kept.status().ok());
  EXPECT_EQ(submitted(), "read 0, write 0");
}

TEST_F(IoDriverTest, CancelReachesOnlyWhatWasQueuedBefore) {
  queue->cancel(Owner{1});
  const Event event = read(1, {}, tagged(IoClass::state_read, Owner{1}));
  run_out();
  EXPECT_TRUE(event.status().ok());
}

// To look at the bytes of a read takes a while: what can be sent by then does not wait for it.
TEST_F(IoDriverTest, WhatARequestFollowsIsSentBeforeTheNextBytesAreLookedAt) {
  std::size_t sent = 0;
  IoTag counts;
  counts.check = [&](std::uint64_t, ConstBytes) {
    sent = engine->submitted.size();
    return Status();
  };
  const Event first = read(1, {}, counts);
  const Event second = read(1, {}, counts);
  const Event third = write(1, first);
  pump();
  engine->complete(0);
  engine->complete(0);
  pump();
  EXPECT_TRUE(second.done());
  EXPECT_EQ(sent, 3u) << "read, read, and the write";
  run_out();
  EXPECT_TRUE(third.done());
}

TEST_F(IoDriverTest, ClosingCancelsWhatHasNotStarted) {
  options.in_flight_chunks = 1;
  open();
  const Gate gate;
  const Event parked = read(1, gate.event());
  const Event started = read(1);
  const Event ready = read(1);
  pump();
  engine->complete(0);
  const Event arrived = read(1);
  queue.reset();
  EXPECT_TRUE(started.status().ok());
  EXPECT_EQ(parked.status().code(), Code::cancelled);
  EXPECT_EQ(ready.status().code(), Code::cancelled);
  EXPECT_EQ(arrived.status().code(), Code::cancelled);
  gate.open();
}

TEST_F(IoDriverTest, WhatNeverCompletesEndsOnceTheEngineTouchesItNoMore) {
  const Event event = read(1);
  pump();
  queue.reset();
  EXPECT_EQ(event.status().code(), Code::io);
  EXPECT_NE(event.status().message().find("never completed"), std::string::npos);
}

TEST_F(IoDriverTest, WhatAnEngineCannotGiveBackNeverEnds) {
  const Event event = read(1);
  pump();
  engine->stops = false;
  ScriptedEngine* const kept = engine;
  file = {};
  queue.reset();
  EXPECT_FALSE(event.done());
  EXPECT_EQ(kept->in_flight.size(), 1u);  // the engine lives on
  EXPECT_TRUE(kept->closed.empty());      // and the file is open
}

TEST_F(IoDriverTest, OpenFailsWithWhatTheEngineSays) {
  auto broken = std::make_unique<ScriptedEngine>();
  broken->how_it_starts = Status(Code::unavailable, "refused");
  const auto by_hand = IoQueue::open_manual(std::move(broken), options);
  EXPECT_EQ(by_hand.status().message(), "refused");
  auto other = std::make_unique<ScriptedEngine>();
  other->how_it_starts = Status(Code::unavailable, "refused");
  EXPECT_EQ(IoQueue::open(std::move(other)).status().code(), Code::unavailable);
}

// An engine for a queue with a thread: it takes transfers and never completes them.
class SilentEngine : public ScriptedEngine {
 public:
  Status start(int wake_fd) override {
    wake_fd_ = wake_fd;
    return {};
  }
  bool submit(const Transfer& transfer) override {
    const bool taken = ScriptedEngine::submit(transfer);
    sent->post(transfer.token);
    return taken;
  }
  void wait(std::vector<Completion>&, Nanoseconds at_most) override {
    if (at_most > Nanoseconds(0)) sleeps->post(0);
    const auto most = std::chrono::ceil<milliseconds>(std::min(at_most, Nanoseconds(seconds(60))));
    pollfd wake{wake_fd_, POLLIN, 0};
    poll(&wake, 1, static_cast<int>(most.count()));
    eventfd_t ignored;
    eventfd_read(wake_fd_, &ignored);
  }

  const std::shared_ptr<Inbox> sent = std::make_shared<Inbox>();
  const std::shared_ptr<Inbox> sleeps = std::make_shared<Inbox>();

 private:
  int wake_fd_ = -1;
};

// A queue with a thread that nothing ever ends in; it sleeps when a test begins.
class SilentQueue : public testing::Test {
 protected:
  SilentQueue() {
    auto engine = std::make_unique<SilentEngine>();
    sent = engine->sent;
    sleeps = engine->sleeps;
    IoQueueOptions options;
    options.drain = milliseconds(1);
    queue = IoQueue::open(std::move(engine), options).value();
    fall_asleep();
  }
  void read(const Event& after = {}) { (void)queue->read(file, 0, buffer.bytes(), after); }
  void fall_asleep() {
    std::vector<std::uint64_t> tokens;
    ASSERT_TRUE(sleeps->wait_until(deadline));
    sleeps->take(tokens);
  }
  bool tells(std::string_view what) const {
    return queue->describe().find(what) != std::string::npos;
  }
  void wait_until_it_tells(std::string_view what) const {
    while (!tells(what)) {
      ASSERT_LT(Clock().now(), deadline) << queue->describe();
      std::this_thread::yield();
    }
  }

  const Nanoseconds deadline = Clock().now() + seconds(30);
  const AlignedBuffer buffer{4096};
  const File file{{.handle = 1, .size = 4096}, [](const OpenFile&) {}};
  const Gate gate;
  std::shared_ptr<Inbox> sent;
  std::shared_ptr<Inbox> sleeps;
  std::unique_ptr<IoQueue> queue;
};

TEST_F(SilentQueue, IsNotWokenByWhatMustWaitOnceItTellsOfAnother) {
  constexpr std::size_t kMore = 10;
  read(gate.event());
  wait_until_it_tells(" 0 arriving, 1 parked");
  for (std::size_t k = 0; k < kMore; ++k) read(gate.event());
  EXPECT_TRUE(tells(" 10 arriving, 1 parked")) << queue->describe();
  gate.open();
  std::size_t found = 0;
  for (std::vector<std::uint64_t> tokens; found < 1 + kMore; found += tokens.size()) {
    ASSERT_TRUE(sent->wait_until(deadline)) << found;
    sent->take(tokens);
  }
}

TEST_F(SilentQueue, TellsOfWhatMustWaitWhileSomethingElseNeverEnds) {
  read();
  fall_asleep();  // it is in flight
  read(gate.event());
  wait_until_it_tells("parked first: read");
  gate.open();
}

// A queue with a thread, over real files.
class RealQueue : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::size_t kSize = 256 * kKiB;

  RealQueue() {
    IoQueueOptions options;
    options.chunk_bytes = 16 * kKiB;
    options.in_flight_bytes = 64 * kKiB;
    std::unique_ptr<IoEngine> engine = posix_engine({.threads = 2});
    if (GetParam() == std::string_view("uring")) {
      auto made = uring_engine();
      if (!made.ok()) return;
      engine = std::move(made).value();
    }
    queue = IoQueue::open(std::move(engine), options).value();
  }
  void SetUp() override {
    if (!queue) GTEST_SKIP() << "io_uring is refused here";
  }
  File scratch(std::uint64_t size) {
    FileSpec spec;
    spec.path = folder.path();
    spec.size = size;
    spec.alignment = 4096;
    auto file = queue->open_file(spec);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return std::move(file).value();
  }

  TemporaryFolder folder;
  std::unique_ptr<IoQueue> queue;
};

TEST_P(RealQueue, ManyThreadsReadWhatTheyWrote) {
  constexpr std::size_t kThreads = 4;
  const File file = scratch(kThreads * kSize);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const AlignedBuffer buffer(kSize);
      Event last;
      for (std::uint64_t round = 0; round < 5; ++round) {
        wait_for(last);
        EXPECT_TRUE(last.status().ok()) << last.status().to_string();
        fill_pattern(buffer.bytes(), round, t * kSize);
        const AlignedBuffer back(kSize);
        const Event stored = queue->write(file, t * kSize, buffer.bytes());
        const Event loaded = queue->read(file, t * kSize, back.bytes(), stored);
        wait_for(loaded);
        EXPECT_TRUE(loaded.status().ok()) << loaded.status().to_string();
        EXPECT_TRUE(is_pattern(back.bytes(), round, t * kSize));
        last = queue->sync(file, loaded);
      }
      wait_for(last);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(queue->usage().read_bytes, kThreads * kSize * 5);
  EXPECT_EQ(queue->usage().written_bytes, kThreads * kSize * 5);
}

TEST_P(RealQueue, MeetsALane) {
  const File file = scratch(kSize);
  const AlignedBuffer buffer(kSize);
  const AlignedBuffer back(kSize);
  LaneOptions options;
  options.name = "cpu";
  const auto lane = Lane::threaded(std::move(options));
  for (std::uint64_t round = 0; round < 20; ++round) {
    Task fill;
    fill.body = [bytes = buffer.bytes(), round] {
      fill_pattern(bytes, round, 0);
      return Status();
    };
    const Event filled = lane->run(std::move(fill));
    const Event stored = queue->write(file, 0, buffer.bytes(), filled);
    const Event loaded = queue->read(file, 0, back.bytes(), stored);
    Task look;
    look.body = [bytes = back.bytes(), round] {
      return is_pattern(bytes, round, 0) ? Status() : Status(Code::corrupt, "other bytes");
    };
    const Event seen = lane->run(std::move(look), loaded);
    wait_for(seen);
    EXPECT_TRUE(seen.status().ok()) << round << ": " << seen.status().to_string();
  }
}

TEST_P(RealQueue, IsDestroyedWithEverythingInFlight) {
  const File file = scratch(kSize);
  const AlignedBuffer buffer(kSize);
  const Gate gate;
  std::vector<Event> events;
  for (int i = 0; i < 20; ++i)
    events.push_back(queue->write(file, 0, buffer.bytes(), i % 2 == 0 ? Event() : gate.event()));
  queue.reset();
  for (const Event& event : events) {
    ASSERT_TRUE(event.done());
    EXPECT_TRUE(event.status().ok() || event.status().code() == Code::cancelled);
  }
  gate.open();
}

TEST_P(RealQueue, ATruncatedFileIsCorrupt) {
  std::filesystem::path path = folder.path() / "short";
  std::ofstream(path) << std::string(5000, 'x');
  FileSpec spec;
  spec.path = path;
  spec.mode = FileMode::read_only;
  spec.direct = false;
  const File file = queue->open_file(spec).value();
  const AlignedBuffer buffer(8192);
  const Event event = queue->read(file, 0, buffer.bytes());
  wait_for(event);
  EXPECT_EQ(event.status().code(), Code::corrupt);
  EXPECT_NE(event.status().message().find("ends at 5000"), std::string::npos)
      << event.status().to_string();
}

INSTANTIATE_TEST_SUITE_P(Engines, RealQueue, testing::Values("posix", "uring"),
                         [](const auto& spec) { return std::string(spec.param); });

TEST(IoDriver, ClosingIsBoundedWhenSomethingNeverCompletes) {
  auto silent = std::make_unique<SilentEngine>();
  silent->stops = false;
  SilentEngine* const kept = silent.get();
  const std::shared_ptr<Inbox> sent = silent->sent;
  IoQueueOptions options;
  options.drain = milliseconds(20);
  auto queue = IoQueue::open(std::move(silent), options).value();
  FileSpec spec;
  spec.path = "file";
  spec.size = 8192;
  const AlignedBuffer buffer(4096);
  const Event never = queue->read(queue->open_file(spec).value(), 0, buffer.bytes());
  const Event registered = queue->register_memory(buffer.bytes());
  sent->wait_until(kForever);
  queue.reset();
  EXPECT_FALSE(never.done());
  EXPECT_TRUE(registered.done());
  EXPECT_EQ(kept->in_flight.size(), 1u);  // the engine lives on
}

}  // namespace
}  // namespace headrace
