// What a power cut leaves of a simulated disk.
#include "io/power_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "io/simulated_disk.h"

namespace headrace {
namespace {

constexpr int kSeeds = 200;

std::vector<std::byte> bytes_of(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

struct Disk {
  Disk() {
    disk.make_folders("/d");
    disk.log_power();
  }
  int create(const char* path, std::uint64_t size) {
    return disk.open({.path = path, .mode = FileMode::create, .size = size, .direct = false})
        .value()
        .handle;
  }
  std::vector<std::byte> content(const char* path) {
    const OpenFile file =
        disk.open({.path = path, .mode = FileMode::read_only, .direct = false}).value();
    std::vector<std::byte> all(file.size);
    EXPECT_EQ(disk.read(file.handle, 0, all), static_cast<std::int64_t>(file.size));
    disk.close(file.handle);
    return all;
  }
  bool has(const char* path) { return disk.look(path) != Entry::nothing; }
  SimulatedDisk disk{kMiB, 4096};
};

TEST(PowerLog, WhatWasSyncedStays) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    Disk d;
    const int file = d.create("/d/a", 5'000);
    d.disk.write(file, 100, bytes_of(3'000, 7));
    d.disk.sync(file);
    d.disk.sync_folder("/d");
    d.disk.cut_power(static_cast<std::uint64_t>(seed));
    const std::vector<std::byte> left = d.content("/d/a");
    ASSERT_EQ(left.size(), 5'000u);
    ASSERT_TRUE(std::all_of(left.begin() + 100, left.begin() + 3'100,
                            [](std::byte b) { return b == std::byte{7}; }));
  }
}

TEST(PowerLog, WhatWasNotIsThereOrNotOrTornAtSectors) {
  std::set<std::size_t> counts;  // of sectors that are new
  for (int seed = 0; seed < kSeeds; ++seed) {
    Disk d;
    const int file = d.create("/d/a", 8 * kSectorBytes);
    d.disk.sync(file);
    d.disk.sync_folder("/d");
    d.disk.write(file, 0, bytes_of(8 * kSectorBytes, 7));
    d.disk.cut_power(static_cast<std::uint64_t>(seed));
    const std::vector<std::byte> left = d.content("/d/a");
    std::size_t count = 0;
    for (std::size_t s = 0; s < 8; ++s) {
      const ConstBytes sector = ConstBytes(left).subspan(s * kSectorBytes, kSectorBytes);
      ASSERT_TRUE(std::ranges::all_of(sector, [&](std::byte b) { return b == sector[0]; }));
      count += sector[0] == std::byte{7} ? 1 : 0;
    }
    counts.insert(count);
  }
  EXPECT_TRUE(counts.contains(0));
  EXPECT_TRUE(counts.contains(8));
  EXPECT_GT(counts.size(), 4u);
}

TEST(PowerLog, NamesAreSafeWithTheirFolderOnly) {
  int both = 0, none = 0, old_one = 0, new_one = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Disk d;
    d.disk.sync(d.create("/d/a", 10));
    d.disk.sync_folder("/d");
    d.disk.sync(d.create("/d/b", 20));
    ASSERT_TRUE(d.disk.rename("/d/b", "/d/a").ok());
    ASSERT_TRUE(d.disk.make_folder("/d/e").ok());
    ASSERT_TRUE(d.disk.rename("/d/e", "/d/f").ok());
    d.disk.cut_power(static_cast<std::uint64_t>(seed));
    ASSERT_TRUE(d.has("/d/a"));  // a rename is never half done
    (d.content("/d/a").size() == 20 ? new_one : old_one) += 1;
    ASSERT_FALSE(d.has("/d/e") && d.has("/d/f"));
    (d.has("/d/e") || d.has("/d/f") ? both : none) += 1;
  }
  for (const int count : {both, none, old_one, new_one}) EXPECT_GT(count, kSeeds / 20);
}

TEST(PowerLog, WhatLiesInAFolderThatIsLostIsLost) {
  int lost = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Disk d;
    ASSERT_TRUE(d.disk.make_folder("/d/e").ok());
    d.disk.sync(d.create("/d/e/a", 10));
    d.disk.sync_folder("/d/e");
    d.disk.cut_power(static_cast<std::uint64_t>(seed));
    EXPECT_EQ(d.has("/d/e"), d.has("/d/e/a"));
    lost += d.has("/d/e") ? 0 : 1;
  }
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, kSeeds);
}

TEST(PowerLog, AfterACutTheLogBeginsAnew) {
  Disk d;
  const int file = d.create("/d/a", 10);
  d.disk.sync(file);
  d.disk.sync_folder("/d");
  ASSERT_TRUE(d.disk.lock_folder("/d").ok());
  EXPECT_EQ(d.disk.lock_folder("/d").status().code(), Code::locked);
  d.disk.cut_power(1);
  EXPECT_EQ(d.disk.write(file, 0, bytes_of(10, 1)), -EBADF);
  EXPECT_TRUE(d.disk.lock_folder("/d").ok());
  d.disk.cut_power(2);
  EXPECT_TRUE(d.has("/d/a"));
}

}  // namespace
}  // namespace headrace
