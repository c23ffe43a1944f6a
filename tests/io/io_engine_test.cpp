// The contract of every engine, over all of them.
#include "io/io_engine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "io/wake.h"
#include "tests/io/engine_kinds.h"
#include "tests/io/refused_calls.h"
#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

constexpr Nanoseconds kNotLong = std::chrono::milliseconds(1);

class EngineContract : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<IoEngine>> made = GetParam().make();
    if (!made.ok()) GTEST_SKIP() << made.status().to_string();
    engine_.emplace(std::move(*made));
    ASSERT_TRUE(engine_->started().ok()) << engine_->started().to_string();
  }

  OpenFile open(const FileSpec& spec) {
    Result<OpenFile> file = (*engine_)->open_file(spec);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return file.ok() ? *file : OpenFile();
  }
  OpenFile open_scratch(std::uint64_t size, bool direct = true) {
    return open({.path = folder_.path(), .size = size, .direct = direct});
  }
  static Transfer to_file(const OpenFile& file, std::uint64_t offset, Bytes bytes) {
    return {.direction = Direction::write,
            .handle = file.handle,
            .offset = offset,
            .data = bytes.data(),
            .size = bytes.size()};
  }
  static Transfer from_file(const OpenFile& file, std::uint64_t offset, Bytes bytes) {
    Transfer transfer = to_file(file, offset, bytes);
    transfer.direction = Direction::read;
    return transfer;
  }

  const TemporaryFolder folder_;
  std::optional<DrivenEngine> engine_;
};

TEST_P(EngineContract, ReadsBackWhatWasWritten) {
  const AlignedBytes written(kMiB), read(kMiB);
  written.fill(1);
  for (const bool direct : {true, false}) {
    const OpenFile file = open_scratch(2 * kMiB, direct);
    std::memset(read.data(), 0, read.size());
    EXPECT_EQ(engine_->run_one(to_file(file, kMiB, written.span())), std::int64_t{kMiB});
    EXPECT_EQ(engine_->run_one(from_file(file, kMiB, read.span())), std::int64_t{kMiB});
    EXPECT_TRUE(same(written.span(), read.span()));
    (*engine_)->close_file(file);
  }
}

TEST_P(EngineContract, ManyAtOnceEndWithTheirOwnBytes) {
  constexpr std::size_t kBlock = 64 * kKiB, kBlocks = 100;
  const AlignedBytes written(kBlock * kBlocks), read(kBlock * kBlocks);
  written.fill(2);
  const OpenFile file = open_scratch(kBlock * kBlocks);
  std::vector<Transfer> writes, reads;
  for (std::size_t k = 0; k < kBlocks; ++k) {
    const std::size_t at = (k * 37 % kBlocks) * kBlock;
    writes.push_back(to_file(file, at, written.span().subspan(at, kBlock)));
    reads.push_back(from_file(file, at, read.span().subspan(at, kBlock)));
  }
  for (const std::int64_t result : engine_->run(writes)) EXPECT_EQ(result, std::int64_t{kBlock});
  for (const std::int64_t result : engine_->run(reads)) EXPECT_EQ(result, std::int64_t{kBlock});
  EXPECT_TRUE(same(written.span(), read.span()));
  (*engine_)->close_file(file);
}

TEST_P(EngineContract, OffsetsAre64Bits) {
  const std::uint64_t offset = 5 * kGiB;
  const AlignedBytes written(8192), read(8192);
  written.fill(3);
  OpenFile file = open({.path = folder_.path() / "sparse", .mode = FileMode::create});
  EXPECT_EQ(engine_->run_one(to_file(file, offset, written.span())), 8192);
  EXPECT_EQ(engine_->run_one(from_file(file, offset, read.span())), 8192);
  EXPECT_TRUE(same(written.span(), read.span()));
  (*engine_)->close_file(file);
  file = open({.path = folder_.path() / "sparse", .mode = FileMode::read_only});
  EXPECT_EQ(file.size, offset + 8192);
  (*engine_)->close_file(file);
}

TEST_P(EngineContract, EndOfFileIsAShortReadAndThenZero) {
  std::ofstream(folder_.path() / "text") << std::string(5000, 'x');
  const AlignedBytes read(8192);
  for (const bool direct : {true, false}) {
    const OpenFile file =
        open({.path = folder_.path() / "text", .mode = FileMode::read_only, .direct = direct});
    EXPECT_EQ(engine_->run_one(from_file(file, 0, read.span())), 5000);
    EXPECT_EQ(engine_->run_one(from_file(file, 4096, read.span())), 904);
    EXPECT_EQ(engine_->run_one(from_file(file, 8192, read.span())), 0);
    (*engine_)->close_file(file);
  }
}

TEST_P(EngineContract, ErrorsComeBackAsTheyAre) {
  const AlignedBytes bytes(4096);
  EXPECT_EQ(engine_->run_one(from_file({}, 0, bytes.span())), -EBADF);
  EXPECT_EQ(engine_->run_one(to_file({}, 0, bytes.span())), -EBADF);
  EXPECT_EQ(engine_->run_one({.direction = Direction::sync}), -EBADF);
  std::ofstream(folder_.path() / "text") << std::string(4096, 'x');
  const OpenFile file = open({.path = folder_.path() / "text", .mode = FileMode::read_only});
  EXPECT_EQ(engine_->run_one(to_file(file, 0, bytes.span())), -EBADF);  // not open for writing
  if (file.direct) {
    EXPECT_EQ(engine_->run_one(from_file(file, 1, bytes.span())), -EINVAL);  // not aligned
  }
  (*engine_)->close_file(file);
}

TEST_P(EngineContract, SyncEndsWithZero) {
  const AlignedBytes bytes(4096);
  const OpenFile file = open_scratch(4096);
  EXPECT_EQ(engine_->run_one(to_file(file, 0, bytes.span())), 4096);
  EXPECT_EQ(engine_->run_one({.direction = Direction::sync, .handle = file.handle}), 0);
  (*engine_)->close_file(file);
}

TEST_P(EngineContract, EventfdEndsAWaitAndIsDrained) {
  std::vector<Completion> completions;
  std::thread other([this] { wake(engine_->wake_fd()); });
  (*engine_)->wait(completions, kForever);
  other.join();
  wake(engine_->wake_fd());
  (*engine_)->wait(completions, kForever);
  EXPECT_TRUE(completions.empty());
  pollfd watched{engine_->wake_fd(), POLLIN, 0};
  while (::poll(&watched, 1, 0) > 0) (*engine_)->wait(completions, kForever);
}

TEST_P(EngineContract, WaitEndsWhenItsTimeIsOver) {
  std::vector<Completion> completions;
  (*engine_)->wait(completions, Nanoseconds(0));
  (*engine_)->wait(completions, kNotLong);
  EXPECT_TRUE(completions.empty());
}

TEST_P(EngineContract, WaitingWithoutBlockingFindsWhatHasEnded) {
  const AlignedBytes bytes(4096);
  const OpenFile file = open_scratch(4096);
  std::vector<Completion> completions;
  Transfer transfer = to_file(file, 0, bytes.span());
  transfer.token = ~std::uint64_t{0};  // any number is a token
  ASSERT_TRUE((*engine_)->submit(transfer));
  while (completions.empty()) (*engine_)->wait(completions, Nanoseconds(0));
  EXPECT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions.front().token, ~std::uint64_t{0});
  EXPECT_EQ(completions.front().result, 4096);
  (*engine_)->close_file(file);
}

TEST_P(EngineContract, RegisteredMemoryMovesTheSameBytes) {
  const AlignedBytes memory(4 * kMiB), other(kMiB);
  const Bytes half = memory.span().first(2 * kMiB);
  const Status registered = (*engine_)->register_memory(half);
  EXPECT_TRUE(registered.ok() || registered.code() == Code::unavailable) << registered.to_string();
  EXPECT_EQ((*engine_)->describe().find("registered buffers") != std::string::npos,
            registered.ok());
  other.fill(4);
  const OpenFile file = open_scratch(4 * kMiB);
  EXPECT_EQ(engine_->run_one(to_file(file, 0, other.span())), std::int64_t{kMiB});
  // Inside, across the end of what is registered, and outside.
  for (const std::size_t at : {std::size_t{0}, 2 * kMiB - 4096, 3 * kMiB}) {
    const Bytes part = memory.span().subspan(at, kMiB);
    EXPECT_EQ(engine_->run_one(from_file(file, 0, part)), std::int64_t{kMiB}) << at;
    EXPECT_TRUE(same(part, other.span())) << at;
    EXPECT_EQ(engine_->run_one(to_file(file, kMiB, part)), std::int64_t{kMiB}) << at;
  }
  (*engine_)->unregister_memory(half);
  EXPECT_EQ(engine_->run_one(from_file(file, kMiB, half.first(kMiB))), std::int64_t{kMiB});
  EXPECT_TRUE(same(half.first(kMiB), other.span()));
  (*engine_)->close_file(file);
}

// A closed file's number is given to the next one; what the engine knew of it must be forgotten.
TEST_P(EngineContract, FilesWithTheNumberOfAClosedOneAreTheirOwn) {
  const AlignedBytes ones(4096), read(4096);
  for (int round = 0; round < 20; ++round) {
    const OpenFile first = open_scratch(4096);
    ones.fill(static_cast<std::uint64_t>(round));
    EXPECT_EQ(engine_->run_one(to_file(first, 0, ones.span())), 4096);
    std::thread([this, first] { (*engine_)->close_file(first); }).join();
    const OpenFile second = open_scratch(4096);
    EXPECT_EQ(engine_->run_one(from_file(second, 0, read.span())), 4096);
    const AlignedBytes zeros(4096);
    EXPECT_TRUE(same(read.span(), zeros.span())) << "round " << round;
    (*engine_)->close_file(second);
  }
}

TEST_P(EngineContract, ClosedScratchFilesGiveTheirSpaceBackAtOnce) {
  const AlignedBytes bytes(4096);
  const OpenFile file = open_scratch(kMiB);
  EXPECT_EQ(engine_->run_one(to_file(file, 0, bytes.span())), 4096);
  const std::string entry = "/proc/self/fd/" + std::to_string(file.handle);
  (*engine_)->close_file(file);
  struct stat facts {};
  const bool still_open = ::stat(entry.c_str(), &facts) == 0;  // until the driver comes by
  EXPECT_TRUE(!still_open || facts.st_blocks == 0);
}

TEST_P(EngineContract, StopsWithNothingInFlightAndAtOnce) {
  EXPECT_TRUE((*engine_)->stop(Nanoseconds(0)));
  EXPECT_TRUE((*engine_)->stop(Nanoseconds(0)));  // and once more
}

TEST_P(EngineContract, StopWaitsForWhatIsInFlight) {
  const AlignedBytes bytes(kMiB);
  bytes.fill(5);
  const OpenFile file = open_scratch(kMiB, false);
  ASSERT_TRUE((*engine_)->submit(to_file(file, 0, bytes.span())));
  EXPECT_TRUE((*engine_)->stop(kForever));
  const AlignedBytes read(kMiB);
  EXPECT_EQ(::pread(file.handle, read.data(), read.size(), 0), ssize_t{kMiB});
  EXPECT_TRUE(same(read.span(), bytes.span()));
  (*engine_)->close_file(file);
}

INSTANTIATE_TEST_SUITE_P(All, EngineContract, testing::ValuesIn(engine_kinds()),
                         [](const auto& kind) { return kind.param.name; });

// A read from a pipe that nobody writes to does not end by itself.
TEST(UringEngine, StopSaysWhenSomethingDoesNotEndAndCanBeCalledAgain) {
  Result<std::unique_ptr<IoEngine>> made = uring_engine();
  if (!made.ok()) GTEST_SKIP() << made.status().to_string();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const AlignedBytes bytes(4096);
  {
    DrivenEngine engine(std::move(*made));
    ASSERT_TRUE(engine.started().ok()) << engine.started().to_string();
    ASSERT_TRUE(engine->submit({.handle = ends[0],
                                .offset = ~std::uint64_t{0},  // a pipe has none
                                .data = bytes.data(),
                                .size = bytes.size()}));
    EXPECT_FALSE(engine->stop(kNotLong));
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    EXPECT_TRUE(engine->stop(kForever));
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(UringEngine, RefusesMoreThanItHasEntriesForUntilSomeHaveEnded) {
  Result<std::unique_ptr<IoEngine>> made = uring_engine({.entries = 4});
  if (!made.ok()) GTEST_SKIP() << made.status().to_string();
  const TemporaryFolder folder;
  const AlignedBytes bytes(4096);
  DrivenEngine engine(std::move(*made));
  const Result<OpenFile> file = engine->open_file({.path = folder.path(), .size = 4096});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const Transfer transfer{.handle = file->handle, .data = bytes.data(), .size = bytes.size()};
  std::size_t sent = 0;
  while (engine->submit(transfer)) ++sent;
  EXPECT_TRUE(sent == 3 || sent == 4) << sent;
  std::vector<Completion> completions;
  while (completions.size() < sent) engine->wait(completions, kForever);
  EXPECT_TRUE(engine->submit(transfer));
  engine->close_file(*file);
}

TEST(UringEngine, RefusedRingsNameErrnoAndTheNextStep) {
  for (const int error : {EPERM, ENOSYS}) {
    for (const long call : {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register}) {
      const std::string said = in_child({{.call = call, .error = error}},
                                        [] { return uring_engine().status().to_string(); });
      EXPECT_NE(said.find("unavailable"), std::string::npos) << said;
      EXPECT_NE(said.find(strerrorname_np(error)), std::string::npos) << said;
      EXPECT_NE(said.find("posix engine"), std::string::npos) << said;
    }
  }
}

TEST(UringEngine, RefusedAfterItWasMadeIsAnErrorOfStart) {
  Result<std::unique_ptr<IoEngine>> made = uring_engine();
  if (!made.ok()) GTEST_SKIP() << made.status().to_string();
  const std::string said = in_child({{.call = SYS_io_uring_setup, .error = EPERM}},
                                    [&] { return (*made)->start(-1).to_string(); });
  EXPECT_NE(said.find("unavailable"), std::string::npos) << said;
  EXPECT_NE(said.find("EPERM"), std::string::npos) << said;
}

TEST(UringEngine, WithLittleLockedMemoryItWorksUnregistered) {
  const std::string said = in_child({}, [] {
    const rlimit little{512 * kKiB, 512 * kKiB};
    if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0 || ::setuid(65534) != 0)
      return std::string("skip");
    Result<std::unique_ptr<IoEngine>> made = uring_engine();
    if (!made.ok()) return "skip: " + made.status().to_string();
    DrivenEngine engine(std::move(*made));
    const AlignedBytes bytes(kMiB);
    const Status how = engine->register_memory(bytes.span());
    const int file = ::open("/proc/self/exe", O_RDONLY);
    const std::int64_t read =
        engine.run_one({.handle = file, .data = bytes.data(), .size = bytes.size()});
    return fmt::format("{} {}", how.to_string(), read);
  });
  if (said.starts_with("skip")) GTEST_SKIP() << "needs root, to become nobody: " << said;
  EXPECT_NE(said.find("ENOMEM"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with(" 1048576")) << said;
}

}  // namespace
}  // namespace headrace
