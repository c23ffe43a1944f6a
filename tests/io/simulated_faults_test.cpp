// A simulated platform whose disk fails as scripted, in virtual time.
#include <gtest/gtest.h>

#include <cerrno>

#include "io/faults.h"
#include "io/platform.h"
#include "tests/support/pattern.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SimulatedFaults : public testing::Test {
 protected:
  static constexpr std::size_t kShard = 8 * 4096;
  static constexpr std::size_t kShards = 6;

  SimulatedFaults() {
    SimulationOptions options;
    options.queue.chunk_bytes = kShard;  // one transfer each
    options.wrap_engine = [this](std::unique_ptr<IoEngine> engine, Clock& clock) {
      return faulty_engine(std::move(engine), script, &clock);
    };
    platform = Platform::simulate(options);
    queue = platform->queue_for("/disk").value();
    FileSpec spec;
    spec.path = "/disk";
    spec.size = kShards * kShard;
    file = queue->open_file(spec).value();
    fill_pattern(buffer.bytes(), 1, 0);
    EXPECT_TRUE(platform->wait(queue->write(file, 0, buffer.bytes()), seconds(1)).ok());
  }

  // Reads all shards into zeroed memory, each by itself.
  std::vector<Event> load() {
    std::vector<Event> events;
    for (std::size_t k = 0; k < kShards; ++k)
      events.push_back(queue->read(file, k * kShard, back.sub(k * kShard, kShard)));
    return events;
  }
  bool right(std::size_t shard) const {
    return is_pattern(back.sub(shard * kShard, kShard), 1, shard * kShard);
  }

  const std::shared_ptr<FaultScript> script = std::make_shared<FaultScript>();
  const AlignedBuffer buffer{kShards * kShard};
  const AlignedBuffer back{kShards * kShard};
  std::unique_ptr<Platform> platform;
  IoQueue* queue = nullptr;
  File file;
};

TEST_F(SimulatedFaults, OneErrorLeavesAllOtherShardsRight) {
  script->add({.kind = FaultKind::error, .first = 2});
  const std::vector<Event> events = load();
  EXPECT_EQ(platform->wait(Event::all(events), seconds(1)).code(), Code::io);
  for (std::size_t k = 0; k < kShards; ++k) {
    EXPECT_EQ(events[k].status().ok(), k != 2) << k;
    EXPECT_EQ(right(k), k != 2) << k;
  }
}

TEST_F(SimulatedFaults, ShortAndInterruptedTransfersAreNoFailures) {
  script->add({.kind = FaultKind::short_transfer, .first = 1, .amount = 3 * 4096});
  script->add({.kind = FaultKind::error, .first = 3, .times = 1, .errno_value = EINTR});
  EXPECT_TRUE(platform->wait(Event::all(load()), seconds(1)).ok());
  for (std::size_t k = 0; k < kShards; ++k) EXPECT_TRUE(right(k)) << k;
  EXPECT_EQ(script->struck(), 2u);
}

TEST_F(SimulatedFaults, AFlippedBitIsReadOnceMore) {
  script->add({.kind = FaultKind::bit_flip, .first = 0, .amount = 12345});
  IoTag tag;
  tag.check = [](std::uint64_t, ConstBytes bytes) {
    return is_pattern(bytes, 1, 0) ? Status() : Status(Code::corrupt, "other bytes");
  };
  const Event event = queue->read(file, 0, back.sub(0, kShard), {}, tag);
  EXPECT_TRUE(platform->wait(event, seconds(1)).ok());
  EXPECT_TRUE(right(0));
}

TEST_F(SimulatedFaults, ADelayPassesInVirtualTime) {
  script->add({.kind = FaultKind::delay, .first = 4, .time = milliseconds(700)});
  const Nanoseconds begin = platform->clock().now();
  EXPECT_TRUE(platform->wait(Event::all(load()), seconds(1)).ok());
  EXPECT_GE(platform->clock().now() - begin, milliseconds(700));
  EXPECT_LE(platform->clock().now() - begin, milliseconds(710));
}

TEST_F(SimulatedFaults, WhatNeverCompletesIsReportedAndLeftToTheKernel) {
  script->add({.kind = FaultKind::never_completes, .first = 1});
  const std::vector<Event> events = load();
  const Status how = platform->wait(Event::all(events), seconds(60));
  EXPECT_EQ(how.code(), Code::timeout);
  EXPECT_NE(how.message().find("read of scratch file in /disk at 32768, 32768 bytes"),
            std::string::npos)
      << how.message();
  file = {};
  platform.reset();
  for (std::size_t k = 0; k < kShards; ++k) EXPECT_EQ(events[k].done(), k != 1) << k;
}

}  // namespace
}  // namespace headrace
