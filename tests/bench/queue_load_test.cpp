#include "bench/queue_load.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace headrace::bench {
namespace {

constexpr std::uint64_t kBlock = 64 * kKiB;
constexpr std::uint64_t kBlocks = 40;

class QueueLoads : public testing::Test {
 protected:
  QueueLoads() {
    options.folders = {folder.path()};
    options.file_bytes = kBlocks * kBlock;
    options.block_bytes = kBlock;
    options.depth = 4;
    options.direct = false;
    options.posix = true;  // there is one on every machine
  }
  QueueLoad open() { return QueueLoad::open(*platform, options).value(); }

  static Result<RawSample> run(QueueLoad& load, Direction direction, const LoadAmount& amount) {
    load.prepare(direction);
    Result<RawSample> sample = load.run(direction, amount);
    if (sample.ok()) HEADRACE_TRY(load.check());
    return sample;
  }

  // The unnamed files in the folder, in the order they were opened.
  std::vector<int> reopen() const {
    std::vector<int> found;
    for (int number = 0; number < 1024; ++number) {
      const std::string link = "/proc/self/fd/" + std::to_string(number);
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(link, gone);
      if (target.starts_with(folder.path().string() + "/"))
        found.push_back(::open(link.c_str(), O_RDWR | O_CLOEXEC));
    }
    return found;
  }
  void flip(std::size_t file, std::uint64_t offset) const {
    const std::vector<int> files = reopen();
    ASSERT_LT(file, files.size());
    char byte = 0;
    ASSERT_EQ(pread(files[file], &byte, 1, static_cast<off_t>(offset)), 1);
    byte = static_cast<char>(byte ^ 0x10);
    ASSERT_EQ(pwrite(files[file], &byte, 1, static_cast<off_t>(offset)), 1);
    for (const int descriptor : files) close(descriptor);
  }

  TemporaryFolder folder;
  std::unique_ptr<Platform> platform = Platform::open().value();
  QueueLoadOptions options;
};

TEST_F(QueueLoads, EveryByteIsThereAfterEachDirection) {
  QueueLoad load = open();
  EXPECT_TRUE(load.verify().ok());
  for (const Direction direction : {Direction::write, Direction::read, Direction::mixed}) {
    const Result<RawSample> sample = run(load, direction, {.bytes = 100 * kBlock});
    ASSERT_TRUE(sample.ok()) << sample.status().to_string();
    const Status verified = load.verify();
    EXPECT_TRUE(verified.ok()) << verified.to_string();
  }
  EXPECT_TRUE(folder.empty());
}

TEST_F(QueueLoads, MoreInFlightThanBlocksStillWritesEachOneInOrder) {
  options.file_bytes = 3 * kBlock;
  options.depth = 16;
  QueueLoad load = open();
  ASSERT_TRUE(run(load, Direction::write, {.bytes = 200 * kBlock}).ok());
  ASSERT_TRUE(run(load, Direction::mixed, {.bytes = 200 * kBlock}).ok());
  EXPECT_TRUE(load.verify().ok());
}

TEST_F(QueueLoads, CountsWholeBlocksAndAsManyOfEachDirectionWhenMixed) {
  QueueLoad load = open();
  const RawSample read = run(load, Direction::read, {.bytes = 2 * kBlock + 1}).value();
  EXPECT_EQ(read.read_bytes, 3 * kBlock);
  EXPECT_EQ(read.written_bytes, 0u);
  const RawSample mixed = run(load, Direction::mixed, {.bytes = 5 * kBlock}).value();
  EXPECT_EQ(mixed.read_bytes, 3 * kBlock);
  EXPECT_EQ(mixed.written_bytes, 3 * kBlock);
  const RawSample timed = run(load, Direction::mixed, {.seconds = 0.01}).value();
  EXPECT_EQ(timed.read_bytes, timed.written_bytes);
  EXPECT_GT(timed.read_bytes, 0u);
  EXPECT_GE(timed.seconds, 0.01);
}

TEST_F(QueueLoads, AFlippedByteAnywhereIsFoundByVerify) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const std::size_t file : {0u, 1u}) {
    QueueLoad load = open();
    ASSERT_TRUE(run(load, Direction::write, {.bytes = 55 * kBlock}).ok());
    const std::uint64_t offset = random() % options.file_bytes;
    flip(file, offset);
    const Status verified = load.verify();
    EXPECT_EQ(verified.code(), Code::corrupt) << verified.to_string();
    const std::string name = "block " + std::to_string(offset / kBlock) + " ";
    EXPECT_NE(verified.message().find(name), std::string::npos) << verified.to_string();
  }
}

TEST_F(QueueLoads, AFlippedByteOfWhatWasReadIsFoundInItsBuffer) {
  options.writes = false;
  QueueLoad load = open();
  flip(0, 2 * kBlock + kBlock / 2 + 77);
  const Result<RawSample> sample = run(load, Direction::read, {.bytes = 4 * kBlock});
  ASSERT_FALSE(sample.ok());
  EXPECT_EQ(sample.status().code(), Code::corrupt);
}

TEST_F(QueueLoads, DirectAccessIsThereOrRefused) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const TemporaryFolder memory("/dev/shm");
  options.folders = {memory.path()};
  options.direct = true;
  EXPECT_EQ(QueueLoad::open(*platform, options).status().code(), Code::unavailable);
  EXPECT_TRUE(memory.empty());
}

}  // namespace
}  // namespace headrace::bench
