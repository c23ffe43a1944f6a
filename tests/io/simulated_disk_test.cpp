#include "io/simulated_disk.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "io/platform.h"
#include "tests/support/pattern.h"

namespace headrace {
namespace {

constexpr std::uint64_t kCapacity = 64 * kKiB;

FileSpec spec(std::filesystem::path path, FileMode mode, std::uint64_t size) {
  FileSpec made;
  made.path = std::move(path);
  made.mode = mode;
  made.size = size;
  made.direct = false;
  return made;
}

class SimulatedDiskTest : public testing::Test {
 protected:
  SimulatedDiskTest() { disk.make_folders("/disk/runs"); }

  OpenFile open(const std::string& path, FileMode mode, std::uint64_t size = 0) {
    return disk.open(spec(path, mode, size)).value();
  }
  void write_file(const std::string& path, std::uint64_t seed) {
    const OpenFile file = open(path, FileMode::create);
    const AlignedBuffer buffer(100);
    fill_pattern(buffer.bytes(), seed, 0);
    EXPECT_EQ(disk.write(file.handle, 0, buffer.bytes()), 100);
    disk.close(file.handle);
  }
  bool holds(const std::string& path, std::uint64_t seed) {
    const OpenFile file = open(path, FileMode::read_only);
    const AlignedBuffer buffer(100);
    const bool whole = disk.read(file.handle, 0, buffer.bytes()) == 100;
    disk.close(file.handle);
    return whole && is_pattern(buffer.bytes(), seed, 0);
  }

  SimulatedDisk disk{kCapacity, 512};
};

TEST_F(SimulatedDiskTest, KeepsWhatIsWritten) {
  write_file("/disk/a", 1);
  write_file("disk/./runs/b", 2);
  EXPECT_TRUE(holds("/disk/a", 1));
  EXPECT_TRUE(holds("/disk/runs/b", 2));
}

TEST_F(SimulatedDiskTest, ReadsEndAtTheEndOfTheFile) {
  write_file("/disk/a", 1);
  const OpenFile file = open("/disk/a", FileMode::read_only);
  EXPECT_EQ(file.size, 100u);
  const AlignedBuffer buffer(100);
  EXPECT_EQ(disk.read(file.handle, 60, buffer.bytes()), 40);
  EXPECT_EQ(disk.read(file.handle, 100, buffer.bytes()), 0);
  EXPECT_EQ(disk.read(file.handle + 1, 0, buffer.bytes()), -EBADF);
}

TEST_F(SimulatedDiskTest, ScratchFilesAreZeroedUnnamedAndGiveTheirSpaceBack) {
  const OpenFile file = open("/disk", FileMode::scratch, kCapacity / 2);
  EXPECT_EQ(disk.free_bytes(), kCapacity / 2);
  const AlignedBuffer buffer(8);
  fill_pattern(buffer.bytes(), 1, 0);
  EXPECT_EQ(disk.read(file.handle, 0, buffer.bytes()), 8);
  for (const std::byte byte : buffer.bytes()) EXPECT_EQ(byte, std::byte{0});
  EXPECT_TRUE(disk.remove("/disk/runs").ok());
  EXPECT_TRUE(disk.remove("/disk").ok());  // nothing has a name there
  disk.close(file.handle);
  EXPECT_EQ(disk.free_bytes(), kCapacity);
}

TEST_F(SimulatedDiskTest, AFullDiskRefusesFilesAndWrites) {
  const auto refused = disk.open(spec("/disk", FileMode::scratch, kCapacity + 1));
  EXPECT_EQ(refused.status().code(), Code::out_of_space);
  const OpenFile file = open("/disk/a", FileMode::create, kCapacity);
  const AlignedBuffer buffer(10);
  EXPECT_EQ(disk.write(file.handle, 10, buffer.bytes()), 10);
  EXPECT_EQ(disk.write(file.handle, kCapacity - 5, buffer.bytes()), -ENOSPC);
}

TEST_F(SimulatedDiskTest, DirectTransfersMustBeAligned) {
  FileSpec direct = spec("/disk", FileMode::scratch, 4096);
  direct.direct = true;
  const OpenFile file = disk.open(direct).value();
  EXPECT_EQ(file.alignment, 512u);
  EXPECT_TRUE(file.direct);
  const AlignedBuffer buffer(1024);
  EXPECT_EQ(disk.write(file.handle, 512, buffer.bytes()), 1024);
  EXPECT_EQ(disk.write(file.handle, 100, buffer.bytes()), -EINVAL);
  EXPECT_EQ(disk.read(file.handle, 0, buffer.sub(8, 512)), -EINVAL);
  EXPECT_EQ(disk.read(file.handle, 0, buffer.sub(0, 100)), -EINVAL);
}

TEST_F(SimulatedDiskTest, NamesAreCreatedOnceAndOpenedOnlyIfThere) {
  write_file("/disk/a", 1);
  EXPECT_EQ(disk.open(spec("/disk/a", FileMode::create, 0)).status().code(), Code::io);
  EXPECT_EQ(disk.open(spec("/disk/b", FileMode::read_only, 0)).status().code(), Code::io);
  EXPECT_EQ(disk.open(spec("/none/a", FileMode::create, 0)).status().code(), Code::io);
  EXPECT_EQ(disk.open(spec("/none", FileMode::scratch, 0)).status().code(), Code::io);
}

TEST_F(SimulatedDiskTest, OverwriteTakesAFileOfThatSizeThatNobodyElseHas) {
  const auto code = [this](FileMode mode, std::uint64_t size) {
    return disk.open(spec("/disk/a", mode, size)).status().code();
  };
  EXPECT_EQ(code(FileMode::overwrite, 100), Code::io);
  write_file("/disk/a", 1);
  EXPECT_EQ(code(FileMode::overwrite, 99), Code::unavailable);
  const OpenFile reader = open("/disk/a", FileMode::shared);
  EXPECT_EQ(code(FileMode::overwrite, 100), Code::locked);
  EXPECT_EQ(code(FileMode::exclusive, 100), Code::locked);
  disk.close(reader.handle);
  const OpenFile writer = open("/disk/a", FileMode::overwrite, 100);
  EXPECT_TRUE(writer.existed);
  EXPECT_EQ(code(FileMode::shared, 0), Code::locked);
  EXPECT_EQ(code(FileMode::overwrite, 100), Code::locked);
  EXPECT_TRUE(holds("/disk/a", 1));  // read_only does not ask
}

TEST_F(SimulatedDiskTest, FoldersAreMadeOnceAndRemovedWhenEmpty) {
  EXPECT_EQ(disk.make_folder("/disk/runs").code(), Code::io);
  EXPECT_EQ(disk.make_folder("/none/runs").code(), Code::io);
  EXPECT_TRUE(disk.make_folder("/disk/runs/1").ok());
  EXPECT_EQ(disk.look("/disk/runs/1"), Entry::folder);
  EXPECT_EQ(disk.remove("/disk/runs").code(), Code::io);
  EXPECT_TRUE(disk.remove("/disk/runs/1").ok());
  EXPECT_EQ(disk.look("/disk/runs/1"), Entry::nothing);
  EXPECT_EQ(disk.remove("/disk/runs/1").code(), Code::io);
}

TEST_F(SimulatedDiskTest, RenamingAFileReplacesTheOther) {
  write_file("/disk/a", 1);
  write_file("/disk/b", 2);
  EXPECT_TRUE(disk.rename("/disk/a", "/disk/b").ok());
  EXPECT_EQ(disk.look("/disk/a"), Entry::nothing);
  EXPECT_TRUE(holds("/disk/b", 1));
  EXPECT_EQ(disk.free_bytes(), kCapacity - 100);
  EXPECT_EQ(disk.rename("/disk/none", "/disk/c").code(), Code::io);
  EXPECT_EQ(disk.rename("/disk/b", "/disk/runs").code(), Code::io);
}

TEST_F(SimulatedDiskTest, RenamingAFolderTakesAllThatIsInIt) {
  EXPECT_TRUE(disk.make_folder("/disk/runs/tmp").ok());
  EXPECT_TRUE(disk.make_folder("/disk/runs/tmp/deep").ok());
  write_file("/disk/runs/tmp/a", 1);
  write_file("/disk/runs/tmp/deep/b", 2);
  EXPECT_TRUE(disk.rename("/disk/runs/tmp", "/disk/runs/last").ok());
  EXPECT_TRUE(holds("/disk/runs/last/a", 1));
  EXPECT_TRUE(holds("/disk/runs/last/deep/b", 2));
  EXPECT_EQ(disk.look("/disk/runs/tmp"), Entry::nothing);
}

TEST_F(SimulatedDiskTest, AFolderReplacesOnlyAnEmptyOne) {
  EXPECT_TRUE(disk.make_folder("/disk/new").ok());
  EXPECT_TRUE(disk.rename("/disk/new", "/disk/runs").ok());
  EXPECT_TRUE(disk.make_folder("/disk/new").ok());
  write_file("/disk/runs/a", 1);
  EXPECT_EQ(disk.rename("/disk/new", "/disk/runs").code(), Code::io);
  EXPECT_EQ(disk.rename("/disk", "/disk/runs/inside").code(), Code::io);
}

TEST_F(SimulatedDiskTest, AnOpenFileOutlivesItsName) {
  write_file("/disk/a", 1);
  const OpenFile file = open("/disk/a", FileMode::read_only);
  EXPECT_TRUE(disk.remove("/disk/a").ok());
  const AlignedBuffer buffer(100);
  EXPECT_EQ(disk.read(file.handle, 0, buffer.bytes()), 100);
  EXPECT_TRUE(is_pattern(buffer.bytes(), 1, 0));
  disk.close(file.handle);
  EXPECT_EQ(disk.free_bytes(), kCapacity);
}

// What a crash of the process leaves to the next one.
TEST(SimulatedDiskOfTwo, OutlivesItsPlatform) {
  SimulationOptions options;
  options.disk = std::make_shared<SimulatedDisk>(kMiB, 512);
  const auto first = Platform::simulate(options);
  IoQueue& queue = *first->queue_for("/disk0").value();
  const File scratch = queue.open_file(spec("/disk0", FileMode::scratch, kMiB / 2)).value();
  const AlignedBuffer buffer(4096);
  fill_pattern(buffer.bytes(), 1, 0);
  const File named = queue.open_file(spec("/disk0/kept", FileMode::create, 0)).value();
  ASSERT_TRUE(first->wait(queue.write(named, 0, buffer.bytes()), std::chrono::seconds(1)).ok());
  options.disk->close_all();
  const auto second = Platform::simulate(options);
  IoQueue& again = *second->queue_for("/disk0").value();
  EXPECT_EQ(again.folders().free_bytes("/disk0").value(), kMiB - 4096);
  const File kept = again.open_file(spec("/disk0/kept", FileMode::read_only, 0)).value();
  const AlignedBuffer found(4096);
  ASSERT_TRUE(second->wait(again.read(kept, 0, found.bytes()), std::chrono::seconds(1)).ok());
  EXPECT_TRUE(is_pattern(found.bytes(), 1, 0));
}

}  // namespace
}  // namespace headrace
