#include "bench/raw_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include "tests/support/temporary_folder.h"

namespace headrace::bench {
namespace {

RawDiskOptions small(const TemporaryFolder& folder) {
  return {.folder = folder.path(),
          .file_bytes = 40 * 64 * kKiB,
          .block_bytes = 64 * kKiB,
          .in_flight = 4};
}

// The unnamed file of the only RawDisk in `folder`, opened once more through the page cache.
int reopen(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.starts_with(folder.string() + "/")) return open(entry.path().c_str(), O_RDWR);
  }
  return -1;
}

void flip_byte(const std::filesystem::path& folder, off_t offset) {
  const int descriptor = reopen(folder);
  ASSERT_GE(descriptor, 0);
  char byte = 0;
  ASSERT_EQ(pread(descriptor, &byte, 1, offset), 1);
  byte = static_cast<char>(byte ^ 0x10);
  ASSERT_EQ(pwrite(descriptor, &byte, 1, offset), 1);
  ASSERT_EQ(fsync(descriptor), 0);
  close(descriptor);
}

#define OPEN_OR_SKIP(disk, options)                                              \
  auto disk##_result = RawDisk::open(options);                                   \
  if (!disk##_result.ok() && disk##_result.status().code() == Code::unavailable) \
    GTEST_SKIP() << disk##_result.status().to_string();                          \
  ASSERT_TRUE(disk##_result.ok()) << disk##_result.status().to_string();         \
  RawDisk disk = std::move(disk##_result).value()

TEST(RawDisk, EveryByteIsOnDiskAfterEachDirection) {
  const TemporaryFolder folder;
  OPEN_OR_SKIP(disk, small(folder));
  EXPECT_TRUE(disk.verify().ok());
  for (const Direction direction : {Direction::write, Direction::read, Direction::mixed}) {
    const Result<RawSample> sample = disk.measure(direction, 100 * 64 * kKiB);
    ASSERT_TRUE(sample.ok()) << sample.status().to_string();
    const Status verified = disk.verify();
    EXPECT_TRUE(verified.ok()) << verified.to_string();
  }
}

TEST(RawDisk, LeavesNoNameInTheFolder) {
  const TemporaryFolder folder;
  OPEN_OR_SKIP(disk, small(folder));
  ASSERT_TRUE(disk.measure(Direction::mixed, kMiB).ok());
  EXPECT_TRUE(folder.empty());
}

TEST(RawDisk, CountsWholeBlocksAndAsManyOfEachDirectionWhenMixed) {
  const TemporaryFolder folder;
  OPEN_OR_SKIP(disk, small(folder));
  const RawSample read = *disk.measure(Direction::read, 64 * kKiB + 1);
  EXPECT_EQ(read.read_bytes, 2 * 64 * kKiB);
  EXPECT_EQ(read.written_bytes, 0u);
  const RawSample written = *disk.measure(Direction::write, 64 * kKiB);
  EXPECT_EQ(written.read_bytes, 0u);
  EXPECT_EQ(written.written_bytes, 64 * kKiB);
  const RawSample mixed = *disk.measure(Direction::mixed, 3 * 64 * kKiB);
  EXPECT_EQ(mixed.read_bytes, 2 * 64 * kKiB);
  EXPECT_EQ(mixed.written_bytes, 2 * 64 * kKiB);
  EXPECT_GT(mixed.seconds, 0);
}

TEST(RawDisk, MoreInFlightThanBlocksStillWritesEachOneInOrder) {
  const TemporaryFolder folder;
  RawDiskOptions options = small(folder);
  options.file_bytes = 3 * options.block_bytes;
  options.in_flight = 16;
  OPEN_OR_SKIP(disk, options);
  ASSERT_TRUE(disk.measure(Direction::write, 50 * options.block_bytes).ok());
  ASSERT_TRUE(disk.measure(Direction::mixed, 50 * options.block_bytes).ok());
  EXPECT_TRUE(disk.verify().ok());
}

TEST(RawDisk, AFlippedByteAnywhereIsFoundByVerify) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TemporaryFolder folder;
  OPEN_OR_SKIP(disk, small(folder));
  const auto offset = static_cast<off_t>(random() % (40 * 64 * kKiB));
  flip_byte(folder.path(), offset);
  const Status verified = disk.verify();
  EXPECT_EQ(verified.code(), Code::corrupt);
  const std::string name = "block " + std::to_string(offset / static_cast<off_t>(64 * kKiB)) + " ";
  EXPECT_NE(verified.message().find(name), std::string::npos) << verified.to_string();
}

TEST(RawDisk, AReadOfAnotherWritesBytesIsReported) {
  const TemporaryFolder folder;
  OPEN_OR_SKIP(disk, small(folder));
  flip_byte(folder.path(), 5 * 64 * kKiB + 8);  // the number of the write of block 5
  const Result<RawSample> sample = disk.measure(Direction::read, 40 * 64 * kKiB);
  ASSERT_FALSE(sample.ok());
  EXPECT_EQ(sample.status().code(), Code::corrupt);
  EXPECT_NE(sample.status().message().find("block 5 "), std::string::npos);
}

TEST(RawDisk, ATruncatedFileIsReported) {
  const TemporaryFolder folder;
  OPEN_OR_SKIP(disk, small(folder));
  const int descriptor = reopen(folder.path());
  ASSERT_EQ(ftruncate(descriptor, 64 * kKiB), 0);
  close(descriptor);
  const Result<RawSample> sample = disk.measure(Direction::read, 40 * 64 * kKiB);
  ASSERT_FALSE(sample.ok());
  EXPECT_NE(sample.status().message().find("end of file"), std::string::npos);
}

TEST(RawDisk, WithoutDirectAccessItStillWorksAndSaysSo) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs at /dev/shm";
  const TemporaryFolder folder("/dev/shm");
  OPEN_OR_SKIP(
      disk, (RawDiskOptions{
                .folder = folder.path(), .file_bytes = 8 * 64 * kKiB, .block_bytes = 64 * kKiB}));
  EXPECT_FALSE(disk.direct());
  ASSERT_FALSE(disk.notes().empty());
  EXPECT_NE(disk.notes().front().find("no direct access"), std::string::npos);
  EXPECT_TRUE(disk.measure(Direction::mixed, kMiB).ok());
  EXPECT_TRUE(disk.verify().ok());
}

TEST(RawDisk, AFileThatDoesNotFitIsRefusedWithBothSizes) {
  const TemporaryFolder folder;
  RawDiskOptions options = small(folder);
  options.file_bytes = std::uint64_t{1} << 50;
  options.block_bytes = 4 * kMiB;
  const Result<RawDisk> disk = RawDisk::open(options);
  ASSERT_FALSE(disk.ok());
  EXPECT_EQ(disk.status().code(), Code::out_of_space) << disk.status().to_string();
  EXPECT_NE(disk.status().message().find("free"), std::string::npos);
}

TEST(RawDisk, AFolderThatIsNotThereIsAnError) {
  const Result<RawDisk> disk = RawDisk::open({.folder = "/nonexistent/headrace"});
  ASSERT_FALSE(disk.ok());
  EXPECT_NE(disk.status().message().find("/nonexistent/headrace"), std::string::npos);
}

TEST(RawDisk, OptionsOutOfRangeAreInvalid) {
  const TemporaryFolder folder;
  for (const auto change : {+[](RawDiskOptions& o) { o.block_bytes = 1000; },
                            +[](RawDiskOptions& o) { o.block_bytes = 0; },
                            +[](RawDiskOptions& o) { o.file_bytes = o.block_bytes; },
                            +[](RawDiskOptions& o) { o.file_bytes += 4096; },
                            +[](RawDiskOptions& o) { o.in_flight = 0; }}) {
    RawDiskOptions options = small(folder);
    change(options);
    EXPECT_EQ(RawDisk::open(options).status().code(), Code::invalid);
  }
}

}  // namespace
}  // namespace headrace::bench
