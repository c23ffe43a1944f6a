#include <gtest/gtest.h>

#include <cerrno>

#include "io/faults.h"
#include "io/simulated_engine.h"
#include "tests/io/engine_kinds.h"
#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
constexpr std::size_t kBlock = 8192;

// Over the thread engine, on a real file.
class FaultyEngine : public testing::Test {
 protected:
  FaultyEngine() {
    Result<OpenFile> file = engine_->open_file({.path = folder_.path(), .size = kBlock});
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    file_ = *file;
    written_.fill(1);
  }
  ~FaultyEngine() override { engine_->close_file(file_); }

  Transfer transfer(Direction direction, const AlignedBytes& bytes) const {
    return {
        .direction = direction, .handle = file_.handle, .data = bytes.data(), .size = bytes.size()};
  }
  std::int64_t write() { return engine_.run_one(transfer(Direction::write, written_)); }
  std::int64_t read() { return engine_.run_one(transfer(Direction::read, read_)); }
  std::size_t wrong_bytes() const {
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < kBlock; ++k) wrong += written_.data()[k] != read_.data()[k];
    return wrong;
  }

  const TemporaryFolder folder_;
  const std::shared_ptr<FaultScript> script_ = std::make_shared<FaultScript>();
  DrivenEngine engine_{faulty_engine(posix_engine(), script_)};
  const AlignedBytes written_{kBlock}, read_{kBlock};
  OpenFile file_;
};

TEST_F(FaultyEngine, ErrorMovesNothing) {
  EXPECT_EQ(write(), std::int64_t{kBlock});
  script_->add({.kind = FaultKind::error, .errno_value = ENXIO});
  EXPECT_EQ(read(), -ENXIO);
  EXPECT_EQ(read_.data()[0], std::byte{0});
  EXPECT_EQ(read(), std::int64_t{kBlock});
  EXPECT_EQ(wrong_bytes(), 0u);
  EXPECT_EQ(script_->struck(), 1u);
}

TEST_F(FaultyEngine, ShortTransferMovesOnlyItsAmount) {
  EXPECT_EQ(write(), std::int64_t{kBlock});
  script_->add({.kind = FaultKind::short_transfer, .amount = 4096});
  EXPECT_EQ(read(), 4096);
  EXPECT_TRUE(same(read_.span().first(4096), written_.span().first(4096)));
  EXPECT_GE(wrong_bytes(), 4000u);  // a few of the random bytes are 0
  script_->add({.kind = FaultKind::short_transfer, .first = 1, .amount = kBlock + 4096});
  EXPECT_EQ(read(), std::int64_t{kBlock});  // more than there is: all of it
}

TEST_F(FaultyEngine, ZeroProgressMovesNothing) {
  script_->add({.kind = FaultKind::zero_progress, .direction = Direction::write});
  EXPECT_EQ(write(), 0);
  EXPECT_EQ(read(), std::int64_t{kBlock});
  EXPECT_GE(wrong_bytes(), 8000u);
}

TEST_F(FaultyEngine, LostWriteSaysThatItIsWritten) {
  script_->add({.kind = FaultKind::lost_write, .direction = Direction::write});
  EXPECT_EQ(write(), std::int64_t{kBlock});
  EXPECT_EQ(read(), std::int64_t{kBlock});
  EXPECT_GE(wrong_bytes(), 8000u);
  EXPECT_EQ(write(), std::int64_t{kBlock});
  EXPECT_EQ(read(), std::int64_t{kBlock});
  EXPECT_EQ(wrong_bytes(), 0u);
}

TEST_F(FaultyEngine, FlippedBitOfAReadIsInMemoryOnly) {
  EXPECT_EQ(write(), std::int64_t{kBlock});
  script_->add({.kind = FaultKind::bit_flip, .amount = 8 * 5000 + 3});
  EXPECT_EQ(read(), std::int64_t{kBlock});
  EXPECT_EQ(read_.data()[5000] ^ written_.data()[5000], std::byte{8});
  EXPECT_EQ(wrong_bytes(), 1u);
  EXPECT_EQ(read(), std::int64_t{kBlock});
  EXPECT_EQ(wrong_bytes(), 0u);
}

TEST_F(FaultyEngine, FlippedBitOfAWriteIsInTheFileOnly) {
  const AlignedBytes before(kBlock);
  std::memcpy(before.data(), written_.data(), kBlock);
  script_->add({.kind = FaultKind::bit_flip, .direction = Direction::write, .amount = 8 * 7});
  EXPECT_EQ(write(), std::int64_t{kBlock});
  EXPECT_TRUE(same(before.span(), written_.span()));
  EXPECT_EQ(read(), std::int64_t{kBlock});
  EXPECT_EQ(read_.data()[7] ^ written_.data()[7], std::byte{1});
  EXPECT_EQ(wrong_bytes(), 1u);
}

TEST_F(FaultyEngine, DelayedTransferEndsWell) {
  script_->add({.kind = FaultKind::delay, .direction = Direction::write, .time = milliseconds(1)});
  EXPECT_EQ(write(), std::int64_t{kBlock});
  EXPECT_EQ(read(), std::int64_t{kBlock});
  EXPECT_EQ(wrong_bytes(), 0u);
}

TEST_F(FaultyEngine, DelayedTransferHoldsNobodyUp) {
  script_->add({.kind = FaultKind::delay, .direction = Direction::write, .time = hours(1)});
  ASSERT_TRUE(engine_->submit(transfer(Direction::write, written_)));
  EXPECT_EQ(engine_.run_one({.direction = Direction::sync, .handle = file_.handle}), 0);
  EXPECT_TRUE(engine_->stop(kForever));  // what is held back has moved
}

TEST_F(FaultyEngine, SyncsFailToo) {
  script_->add({.kind = FaultKind::error, .direction = Direction::sync});
  EXPECT_EQ(engine_.run_one({.direction = Direction::sync, .handle = file_.handle}), -EIO);
  EXPECT_EQ(engine_.run_one({.direction = Direction::sync, .handle = file_.handle}), 0);
}

TEST_F(FaultyEngine, FilesAndFoldersAreTheInnerEngines) {
  EXPECT_TRUE(engine_->make_folder(folder_.path() / "a").ok());
  EXPECT_TRUE(engine_->rename(folder_.path() / "a", folder_.path() / "b").ok());
  EXPECT_EQ(*engine_->look(folder_.path() / "b"), Entry::folder);
  EXPECT_TRUE(engine_->sync_folder(folder_.path() / "b").ok());
  EXPECT_TRUE(engine_->remove(folder_.path() / "b").ok());
  EXPECT_GT(*engine_->free_bytes(folder_.path()), 0u);
  EXPECT_EQ(engine_->describe(), "faulty posix, 8 threads");
}

// It has moved, so that the memory is quiet after stop().
TEST(FaultyEngineStop, IsFalseWhenSomethingNeverCompleted) {
  const TemporaryFolder folder;
  const auto script = std::make_shared<FaultScript>();
  const int wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const std::unique_ptr<IoEngine> engine = faulty_engine(posix_engine(), script);
  ASSERT_TRUE(engine->start(wake_fd).ok());
  const Result<OpenFile> file = engine->open_file({.path = folder.path(), .size = kBlock});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const AlignedBytes bytes(kBlock);
  script->add({.kind = FaultKind::never_completes, .direction = Direction::write});
  const Transfer lost{.token = 1,
                      .direction = Direction::write,
                      .handle = file->handle,
                      .data = bytes.data(),
                      .size = kBlock};
  Transfer well = lost;
  well.token = 2;
  ASSERT_TRUE(engine->submit(lost));
  ASSERT_TRUE(engine->submit(well));
  std::vector<Completion> completions;
  while (completions.empty()) engine->wait(completions, kForever);
  EXPECT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions.front().token, 2u);
  EXPECT_FALSE(engine->stop(kForever));
  EXPECT_FALSE(engine->stop(kForever));
  engine->close_file(*file);
  ::close(wake_fd);
}

TEST(FaultScript, StrikesTheFirstAndEachOneAfterItSoOften) {
  FaultScript script;
  script.add({.first = 2, .every = 3, .times = 3});
  Fault fault;
  std::string pattern;
  for (int k = 0; k < 14; ++k) pattern += script.next(Direction::read, fault) ? 'x' : '.';
  EXPECT_EQ(pattern, "..x..x..x.....");
  EXPECT_FALSE(script.next(Direction::write, fault));
  EXPECT_EQ(script.struck(), 3u);
}

TEST(FaultScript, CountsEachDirectionByItself) {
  FaultScript script;
  script.add({.kind = FaultKind::delay, .direction = Direction::write, .first = 1});
  Fault fault;
  EXPECT_FALSE(script.next(Direction::read, fault));
  EXPECT_FALSE(script.next(Direction::read, fault));
  EXPECT_FALSE(script.next(Direction::write, fault));
  EXPECT_TRUE(script.next(Direction::write, fault));
  EXPECT_EQ(fault.kind, FaultKind::delay);
}

TEST(FaultScript, ClearedItStrikesNothing) {
  FaultScript script;
  script.add({.every = 1, .times = 100});
  Fault fault;
  EXPECT_TRUE(script.next(Direction::read, fault));
  script.clear();
  EXPECT_FALSE(script.next(Direction::read, fault));
  EXPECT_EQ(script.struck(), 1u);
}

// An inner engine that is full at every other submission.
TEST(FaultScript, TransferThatTheInnerEngineRefusesIsCountedOnce) {
  Result<std::unique_ptr<IoEngine>> inner = uring_engine({.entries = 2});
  if (!inner.ok()) GTEST_SKIP() << inner.status().to_string();
  const TemporaryFolder folder;
  const auto script = std::make_shared<FaultScript>();
  DrivenEngine engine(faulty_engine(std::move(*inner), script));
  const Result<OpenFile> file = engine->open_file({.path = folder.path(), .size = 4096});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  script->add({.kind = FaultKind::error, .first = 5, .every = 10, .times = 4});
  const AlignedBytes bytes(4096);
  const std::vector<std::int64_t> results = engine.run(std::vector<Transfer>(
      40, {.handle = file->handle, .data = bytes.data(), .size = bytes.size()}));
  for (std::size_t k = 0; k < results.size(); ++k)
    EXPECT_EQ(results[k], k % 10 == 5 ? -EIO : 4096) << k;
  engine->close_file(*file);
}

// Virtual time: nothing blocks, and due() tells when something will have ended.
class VirtualTime : public testing::Test {
 protected:
  std::unique_ptr<IoEngine> simulated(SimulatedDrive drive = {}) {
    disk_->make_folders("/disk");
    return simulated_engine(disk_, drive, clock_);
  }
  // The times at which transfers of these directions, all submitted now, end.
  std::vector<Nanoseconds> ends(IoEngine& engine, const std::vector<Direction>& directions) {
    EXPECT_TRUE(engine.start(-1).ok());
    const Result<OpenFile> file = engine.open_file({.path = "/disk", .size = kMiB});
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    std::vector<Nanoseconds> found(directions.size(), kForever);
    for (std::size_t k = 0; k < directions.size(); ++k) {
      const Transfer transfer{k, directions[k], file->handle, 0, bytes_.data(), bytes_.size()};
      EXPECT_TRUE(engine.submit(transfer));
    }
    std::vector<Completion> completions;
    for (;;) {
      completions.clear();
      engine.wait(completions, Nanoseconds(0));
      for (const Completion& completion : completions) found[completion.token] = clock_.now();
      if (engine.due() == kForever) break;
      clock_.advance_to(engine.due());
    }
    engine.close_file(*file);
    return found;
  }

  Clock clock_{Clock::Kind::simulated};
  const std::shared_ptr<SimulatedDisk> disk_ = std::make_shared<SimulatedDisk>(2 * kMiB, 4096);
  const AlignedBytes bytes_{100 * 4096};
};

TEST_F(VirtualTime, DelaysArePassedAsDue) {
  const auto script = std::make_shared<FaultScript>();
  script->add({.kind = FaultKind::delay, .first = 1, .time = microseconds(700)});
  script->add({.kind = FaultKind::never_completes, .first = 2});
  const auto engine = faulty_engine(simulated(), script, &clock_);
  const auto found = ends(*engine, {Direction::read, Direction::read, Direction::read});
  EXPECT_EQ(found[0], Nanoseconds(0));
  EXPECT_EQ(found[1], microseconds(700));
  EXPECT_EQ(found[2], kForever);
  EXPECT_FALSE(engine->stop(Nanoseconds(0)));
}

TEST_F(VirtualTime, LimitedDiskServesReadsAndWritesOneAfterTheOther) {
  const auto engine = rate_limited_engine(simulated(),
                                          {.read_bytes_per_second = 409'600'000,
                                           .write_bytes_per_second = 204'800'000,
                                           .latency = microseconds(50)},
                                          &clock_);
  const auto found = ends(*engine, {Direction::read, Direction::write, Direction::read});
  EXPECT_EQ(found[0], microseconds(1000 + 50));
  EXPECT_EQ(found[1], microseconds(3000 + 50));
  EXPECT_EQ(found[2], microseconds(4000 + 50));
  EXPECT_TRUE(engine->stop(Nanoseconds(0)));
}

TEST_F(VirtualTime, UnlimitedDirectionsTakeTheInnerEnginesTime) {
  const auto engine = rate_limited_engine(simulated({.read_bytes_per_second = 409'600'000}),
                                          {.write_bytes_per_second = 409'600'000}, &clock_);
  const auto found = ends(*engine, {Direction::read, Direction::write});
  EXPECT_EQ(found[0], microseconds(1000));
  EXPECT_EQ(found[1], microseconds(1000));
  EXPECT_TRUE(engine->stop(Nanoseconds(0)));
}

TEST_F(VirtualTime, IdleTimeIsNotMadeUpFor) {
  clock_.advance_to(milliseconds(5));
  const auto engine =
      rate_limited_engine(simulated(), {.read_bytes_per_second = 409'600'000}, &clock_);
  EXPECT_EQ(ends(*engine, {Direction::read})[0], milliseconds(6));
  EXPECT_TRUE(engine->stop(Nanoseconds(0)));
}

TEST(RateLimitedEngine, HandsOutEverythingInRealTimeToo) {
  const TemporaryFolder folder;
  DrivenEngine engine(rate_limited_engine(posix_engine(), {.write_bytes_per_second = 100'000'000}));
  const Result<OpenFile> file = engine->open_file({.path = folder.path(), .size = 100'000});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const AlignedBytes bytes(10 * 4096);
  const Transfer transfer{.direction = Direction::write,
                          .handle = file->handle,
                          .data = bytes.data(),
                          .size = bytes.size()};
  for (const std::int64_t result : engine.run(std::vector<Transfer>(10, transfer)))
    EXPECT_EQ(result, 40960);
  EXPECT_TRUE(engine->describe().ends_with("reads unlimited, writes 100 MB/s"))
      << engine->describe();
  engine->close_file(*file);
}

}  // namespace
}  // namespace headrace
