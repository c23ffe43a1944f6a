// Every block of state that is read from NVMe is checked: what a drive flips, loses or mixes up is
// read once more, and then an error that names shard and block; never other bits.
#include "runtime/block_sums.h"

#include <cstring>

#include "tests/runtime/faulty_model.h"

namespace headrace {
namespace {

using namespace small;

constexpr std::array kGrounds = {GroundKind::simulated, GroundKind::posix, GroundKind::uring};

bool says(const Status& status, std::string_view part) {
  return status.message().find(part) != std::string::npos;
}

class BlockSumsOfOneShard : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSize = 9 * kMiB + 8 * kKiB;
  BlockSumsOfOneShard() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7 / 3);
  }

  const std::unique_ptr<Platform> platform_ = Platform::simulate();
  const std::array<std::filesystem::path, 2> paths_ = {"/disk0", "/disk1"};
  const std::unique_ptr<Tier> tier_ = Tier::nvme(*platform_, paths_, 4 * kSize).value();
  const Extent first_ = tier_->allocate(kSize).value();
  const Extent second_ = tier_->allocate(kSize).value();
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kSize);
};

TEST_F(BlockSumsOfOneShard, WhatWasStoredIsAcceptedInPiecesToo) {
  BlockSums sums("shard 0", second_.region());
  EXPECT_GT(sums.runs().size(), 1u);
  for (const auto& run : sums.runs())
    sums.note(run.at, ConstBytes(bytes_).subspan(run.at, run.size));
  for (const Piece& piece : tier_->stripes().pieces(second_.region().offset(), kSize))
    EXPECT_TRUE(sums.check(piece.at, ConstBytes(bytes_).subspan(piece.at, piece.size)).ok());
}

TEST_F(BlockSumsOfOneShard, OneBitIsFoundAndItsBlockNamed) {
  BlockSums sums("shard 4 (unit 2)", first_.region());
  sums.note(0, bytes_);
  bytes_[2 * kMiB + 5] ^= std::byte{1};
  const Piece piece = tier_->stripes().pieces(first_.region().offset(), kSize)[1];
  const Status how = sums.check(piece.at, ConstBytes(bytes_).subspan(piece.at, piece.size));
  EXPECT_EQ(how.code(), Code::corrupt);
  EXPECT_TRUE(says(how, "shard 4 (unit 2), block 2 of 10 (1048576 B from 2097152 on)"))
      << how.message();
}

TEST_F(BlockSumsOfOneShard, BeforeTheFirstStoreOnlyZerosAreRight) {
  const BlockSums sums("shard 0", first_.region());
  const std::vector<std::byte> zeros(kSize);
  EXPECT_TRUE(sums.check(0, zeros).ok());
  EXPECT_EQ(sums.check(0, bytes_).code(), Code::corrupt);
}

TEST_F(BlockSumsOfOneShard, StaleAndForeignBlocksAreFound) {
  BlockSums sums("shard 0", first_.region());
  sums.note(0, bytes_);
  std::vector<std::byte> newer = bytes_;
  newer.back() ^= std::byte{8};
  sums.note(0, newer);
  EXPECT_EQ(sums.check(0, bytes_).code(), Code::corrupt);
  std::swap_ranges(newer.begin(), newer.begin() + kMiB, newer.begin() + kMiB);
  EXPECT_EQ(sums.check(0, newer).code(), Code::corrupt);
}

// Steps, one of which meets `fault`; the first failure of any of them, or of the reading after.
Status train_with(Engine& engine, const std::function<void()>& strike) {
  HEADRACE_TRY(train(engine, 0, 2));
  strike();
  HEADRACE_TRY(train(engine, 2, 5));
  return hash(engine).status();
}

TEST(BlockSums, ABitThatFlipsOnTheWayInIsReadOnceMore) {
  for (const GroundKind ground : kGrounds) {
    Faulty faulty(ground);
    if (faulty.missing()) continue;
    const auto engine = faulty.open();
    const auto flip = [&] { faulty.strike(FaultKind::bit_flip, Direction::read, 3); };
    const Status how = train_with(*engine, flip);
    ASSERT_TRUE(how.ok()) << how.to_string();
    EXPECT_EQ(faulty.script->struck(), 1u);
    EXPECT_EQ(hash(*engine).value(), hash_without_faults(5));
  }
}

TEST(BlockSums, WhatADriveWroteWrongIsCorruptAndNamed) {
  for (const FaultKind kind : {FaultKind::bit_flip, FaultKind::lost_write})
    for (const GroundKind ground : kGrounds) {
      Faulty faulty(ground);
      if (faulty.missing()) continue;
      const auto engine = faulty.open();
      const auto lose = [&] { faulty.strike(kind, Direction::write, 3); };
      const Status how = train_with(*engine, lose);
      EXPECT_EQ(faulty.script->struck(), 1u);
      EXPECT_EQ(how.code(), Code::poisoned) << how.to_string();
      EXPECT_TRUE(says(how, "corrupt") && says(how, "shard ") && says(how, "block ") &&
                  says(how, "read twice"))
          << how.to_string();
      EXPECT_EQ(hash(*engine).status().code(), Code::poisoned);
    }
}

TEST(BlockSums, AReadOfTheUserFindsItToo) {
  Faulty faulty(GroundKind::simulated);
  const auto engine = faulty.open();
  ASSERT_TRUE(train(*engine, 0, 2).ok());
  ASSERT_TRUE(hash(*engine).ok());
  Fault fault;
  fault.kind = FaultKind::bit_flip;
  fault.direction = Direction::read;
  fault.first = faulty.script->seen(Direction::read);
  fault.every = 1;
  fault.times = 1000;
  faulty.script->add(fault);
  const Status how = hash(*engine).status();
  EXPECT_EQ(how.code(), Code::corrupt) << how.to_string();
  EXPECT_TRUE(says(how, "shard ")) << how.to_string();
}

}  // namespace
}  // namespace headrace
