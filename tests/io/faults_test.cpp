// An IoQueue over every engine on real files, with faults in between: what is harmless is not seen,
// and what is not reaches the one request that it struck.
#include "io/faults.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <random>

#include "io/io_queue.h"
#include "tests/io/engine_kinds.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait_for.h"

namespace headrace {
namespace {

constexpr std::size_t kBlock = 64 * kKiB;
constexpr std::size_t kBlocks = 32;

class FaultyQueue : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<IoEngine>> made = GetParam().make();
    if (!made.ok()) GTEST_SKIP() << made.status().to_string();
    IoQueueOptions options;
    options.chunk_bytes = 16 * kKiB;
    options.in_flight_bytes = 256 * kKiB;
    options.in_flight_chunks = 16;
    Result<std::unique_ptr<IoQueue>> queue =
        IoQueue::open(faulty_engine(std::move(*made), script_), options);
    ASSERT_TRUE(queue.ok()) << queue.status().to_string();
    queue_ = std::move(*queue);
    Result<File> file = queue_->open_file({.path = folder_.path(), .size = kBlocks * kBlock});
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    file_ = std::move(*file);
    written_.fill(7);
  }

  static Bytes block(const AlignedBytes& bytes, std::size_t k) {
    return bytes.span().subspan(k * kBlock, kBlock);
  }
  bool right(std::size_t k) const { return same(block(written_, k), block(read_, k)); }
  Event write(std::size_t k, Event after = {}) {
    return queue_->write(file_, k * kBlock, block(written_, k), std::move(after));
  }
  Event read(std::size_t k, Event after = {}, Check check = {}) {
    IoTag tag;
    tag.check = std::move(check);
    return queue_->read(file_, k * kBlock, block(read_, k), std::move(after), std::move(tag));
  }
  // Whether these are the bytes that were written.
  Check compared_with(std::size_t k) const {
    return [expected = block(written_, k)](std::uint64_t, ConstBytes bytes) {
      return same(expected, bytes) ? Status() : Status(Code::corrupt, "other bytes");
    };
  }
  // All blocks, each read after it is written.
  std::vector<Event> move_all() {
    std::vector<Event> reads;
    for (std::size_t k = 0; k < kBlocks; ++k) reads.push_back(read(k, write(k)));
    return reads;
  }

  const TemporaryFolder folder_;
  const std::shared_ptr<FaultScript> script_ = std::make_shared<FaultScript>();
  const AlignedBytes written_{kBlocks * kBlock}, read_{kBlocks * kBlock};
  std::unique_ptr<IoQueue> queue_;
  File file_;
};

TEST_P(FaultyQueue, HarmlessFaultsAreNotSeen) {
  const std::uint64_t seed = std::random_device()();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  for (int k = 0; k < 12; ++k) {
    const auto direction = random() % 2 == 0 ? Direction::read : Direction::write;
    const Fault at{
        .direction = direction, .first = random() % 60, .every = 20 + random() % 30, .times = 4};
    Fault fault = at;
    switch (random() % 4) {
      case 0:
        fault.kind = FaultKind::short_transfer;
        fault.amount = 4096 * (1 + random() % 3);
        break;
      case 1:
        fault.kind = FaultKind::delay;
        fault.time = std::chrono::microseconds(random() % 1000);
        break;
      case 2:
        fault.kind = FaultKind::error;
        fault.errno_value = EAGAIN;
        break;
      default:
        fault.kind = FaultKind::error;
        fault.errno_value = EINTR;
    }
    script_->add(fault);
  }
  const std::vector<Event> reads = move_all();
  wait_for(Event::all(reads));
  for (std::size_t k = 0; k < kBlocks; ++k) {
    EXPECT_TRUE(reads[k].status().ok()) << reads[k].status().to_string();
    EXPECT_TRUE(right(k)) << k;
  }
  EXPECT_GT(script_->struck(), 0u);
}

TEST_P(FaultyQueue, OneFailedReadLeavesAllOthersRight) {
  script_->add({.kind = FaultKind::error, .first = 50});
  const std::vector<Event> reads = move_all();
  wait_for(Event::all(reads).over());
  std::size_t failed = 0;
  for (std::size_t k = 0; k < kBlocks; ++k) {
    if (reads[k].status().ok()) {
      EXPECT_TRUE(right(k)) << k;
      continue;
    }
    ++failed;
    EXPECT_EQ(reads[k].status().code(), Code::io);
    EXPECT_NE(reads[k].status().message().find("scratch file"), std::string::npos)
        << reads[k].status().to_string();
  }
  EXPECT_EQ(failed, 1u);
}

TEST_P(FaultyQueue, NoProgressOnceIsTriedAgainAndForeverIsAnError) {
  script_->add({.kind = FaultKind::zero_progress, .direction = Direction::write, .first = 2});
  const Event once = write(0);
  wait_for(once);
  EXPECT_TRUE(once.status().ok()) << once.status().to_string();
  script_->add(
      {.kind = FaultKind::zero_progress, .direction = Direction::write, .every = 1, .times = 1000});
  const Event never = write(1);
  wait_for(never);
  EXPECT_EQ(never.status().code(), Code::io);
}

TEST_P(FaultyQueue, FlippedBitIsReadOnceMore) {
  script_->add({.kind = FaultKind::bit_flip, .first = 1, .amount = 12345});
  const Event event = read(3, write(3), compared_with(3));
  wait_for(event);
  EXPECT_TRUE(event.status().ok()) << event.status().to_string();
  EXPECT_TRUE(right(3));
  EXPECT_EQ(script_->struck(), 1u);
}

TEST_P(FaultyQueue, WhatIsWrongInTheFileIsCorrupt) {
  for (const FaultKind kind : {FaultKind::lost_write, FaultKind::bit_flip}) {
    script_->clear();
    script_->add({.kind = kind, .direction = Direction::write, .every = 1, .times = 4});
    const std::size_t k = kind == FaultKind::lost_write ? 5 : 6;
    const Event stored = write(k);
    const Event event = read(k, stored, compared_with(k));
    wait_for(event);
    EXPECT_TRUE(stored.status().ok());
    EXPECT_EQ(event.status().code(), Code::corrupt);
  }
}

TEST_P(FaultyQueue, FailedSyncIsAnError) {
  script_->add({.kind = FaultKind::error, .direction = Direction::sync});
  const Event first = queue_->sync(file_, write(0));
  wait_for(first);
  EXPECT_EQ(first.status().code(), Code::io);
  const Event second = queue_->sync(file_);
  wait_for(second);
  EXPECT_TRUE(second.status().ok()) << second.status().to_string();
}

INSTANTIATE_TEST_SUITE_P(All, FaultyQueue, testing::ValuesIn(engine_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace headrace
