#include "tiers/mover.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/statfs.h>

#include <cstring>

#include "io/faults.h"
#include "tests/tiers/ground.h"

namespace headrace {
namespace {

class Moves : public testing::TestWithParam<GroundKind> {
 protected:
  void SetUp() override {
    if (const std::string why = ground.missing(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    if (HasFailure()) fmt::print("seed {}\n", ground.seed());
  }
  Platform& platform() { return ground.platform(); }

  // An event that is over some time later.
  Event busy() { return gate->occupy(std::chrono::milliseconds(5), "kernel"); }

  const std::shared_ptr<FaultScript> faults = std::make_shared<FaultScript>();
  Ground ground{GetParam(), [this](std::unique_ptr<IoEngine> inner, Clock& clock) {
                  return faulty_engine(std::move(inner), faults, &clock);
                }};
  const std::unique_ptr<Stream> gate = platform().device().open_stream("gate");
  const std::unique_ptr<Tier> dram = Tier::dram(platform(), 8 * kMiB).value();
  const std::unique_ptr<Tier> hbm = Tier::hbm(platform(), 4 * kMiB).value();
  Mover mover{platform(), platform().new_owner()};
};

void fill(const Region& region, ConstBytes bytes) { std::ranges::copy(bytes, region.view().data); }

bool holds(const Region& region, ConstBytes bytes) {
  return std::ranges::equal(region.view().bytes().first(bytes.size()), bytes);
}

TEST_P(Moves, BytesPassThroughEveryTier) {
  const auto nvme = Tier::nvme(platform(), ground.folders(1), 16 * kMiB).value();
  for (const std::uint64_t size : {std::uint64_t{4096}, 2 * kMiB + 135168}) {
    const std::vector<std::byte> sent = random_bytes(size, 5);
    const Extent a = dram->allocate(size).value(), b = dram->allocate(size).value();
    const Extent up = hbm->allocate(size).value(), disk = nvme->allocate(size).value();
    fill(a.region(), sent);
    const Event raised = mover.move(a.region(), up.region());
    const Event lowered = mover.move(up.region(), b.region(), raised);
    const Event copied = mover.move(b.region(), a.region(), lowered);
    const Event stored = mover.move(a.region(), disk.region(), copied);
    const Event loaded = mover.move(disk.region(), b.region(), stored);
    ASSERT_TRUE(ground.wait(loaded).ok()) << loaded.status().message();
    EXPECT_TRUE(holds(b.region(), sent));
  }
}

TEST_P(Moves, BytesWithinTheDeviceMoveToo) {
  const std::vector<std::byte> sent = random_bytes(8192, 6);
  const Extent host = dram->allocate(8192).value();
  const Extent one = hbm->allocate(8192).value(), two = hbm->allocate(8192).value();
  fill(host.region(), sent);
  const Event raised = mover.move(host.region(), one.region());
  const Event moved = mover.move(one.region(), two.region(), raised);
  ASSERT_TRUE(ground.wait(moved).ok());
  std::memset(host.region().view().data, 0, 8192);
  ASSERT_TRUE(ground.wait(mover.move(two.region(), host.region(), moved)).ok());
  EXPECT_TRUE(holds(host.region(), sent));
}

TEST_P(Moves, StripesKeepEveryByteWhateverTheCut) {
  SCOPED_TRACE(fmt::format("seed {}", ground.seed()));
  std::mt19937_64 random(ground.seed());
  constexpr std::uint64_t kSpace = 150 * 4096;
  for (const std::size_t paths : {1U, 2U, 3U}) {
    for (const std::uint64_t stripe : {4096U, 12288U, 65536U}) {
      NvmeOptions options;
      options.stripe_bytes = stripe;
      const auto nvme = Tier::nvme(platform(), ground.folders(paths), kSpace, options).value();
      const Extent disk = nvme->allocate(kSpace).value();
      const Extent from = dram->allocate(kSpace).value(), to = dram->allocate(kSpace).value();
      std::vector<std::byte> expected(kSpace);
      Event last = mover.move(from.region(), disk.region());  // zeros, or the round before
      std::ranges::copy(from.region().view().bytes(), expected.begin());
      for (int k = 0; k < 8; ++k) {
        ASSERT_TRUE(ground.wait(last).ok());
        const std::uint64_t at = random() % 150, count = random() % (150 - at);
        const std::vector<std::byte> part = random_bytes(count * 4096, random());
        std::ranges::copy(part, expected.begin() + static_cast<std::ptrdiff_t>(at * 4096));
        fill(from.region().sub(at * 4096, part.size()), part);
        last = mover.move(from.region().sub(at * 4096, part.size()),
                          disk.region().sub(at * 4096, part.size()), last);
      }
      // Back in parts that no stripe agrees with, and all at once.
      std::vector<Event> reads;
      for (std::uint64_t at = 0; at < 150; at += 7) {
        const std::uint64_t size = std::min<std::uint64_t>(7, 150 - at) * 4096;
        reads.push_back(
            mover.move(disk.region().sub(at * 4096, size), to.region().sub(at * 4096, size), last));
      }
      ASSERT_TRUE(ground.wait(Event::all(reads)).ok());
      ASSERT_TRUE(holds(to.region(), expected)) << paths << " paths, stripes of " << stripe;
      std::memset(to.region().view().data, 1, kSpace);
      ASSERT_TRUE(ground.wait(mover.move(disk.region(), to.region())).ok());
      ASSERT_TRUE(holds(to.region(), expected)) << paths << " paths, stripes of " << stripe;
    }
  }
}

TEST_P(Moves, AlignmentOf64KiBIsKept) {
  NvmeOptions options;
  options.alignment = 65536;
  options.stripe_bytes = 4096;
  const auto nvme = Tier::nvme(platform(), ground.folders(2), 4 * kMiB, options).value();
  const Extent odd = dram->allocate(4096).value();
  const Extent slot = dram->allocate_aligned(300'000, nvme->alignment()).value();
  const Extent disk = nvme->allocate(300'000).value();
  ASSERT_EQ(slot.region().size(), disk.region().size());
  const std::vector<std::byte> sent = random_bytes(slot.region().size(), 8);
  fill(slot.region(), sent);
  const Event stored = mover.move(slot.region(), disk.region());
  ASSERT_TRUE(ground.wait(stored).ok()) << stored.status().message();
  std::memset(slot.region().view().data, 0, sent.size());
  ASSERT_TRUE(ground.wait(mover.move(disk.region(), slot.region())).ok());
  EXPECT_TRUE(holds(slot.region(), sent));
}

TEST_P(Moves, SizesMustBeEqual) {
  const Extent a = dram->allocate(8192).value(), b = hbm->allocate(4096).value();
  const Event before = busy();
  const Event moved = mover.move(a.region(), b.region(), before);
  EXPECT_EQ(ground.wait(moved).code(), Code::invalid);
  EXPECT_TRUE(before.done());
}

TEST_P(Moves, WithoutADirectPathTheRouteIsNamed) {
  const auto nvme = Tier::nvme(platform(), ground.folders(1), 16384).value();
  const Extent disk = nvme->allocate(4096).value(), disk2 = nvme->allocate(4096).value();
  const Extent up = hbm->allocate(4096).value();
  for (const auto& [from, to] :
       {std::pair(disk.region(), up.region()), std::pair(up.region(), disk.region()),
        std::pair(disk.region(), disk2.region())}) {
    const Status why = ground.wait(mover.move(from, to));
    EXPECT_EQ(why.code(), Code::invalid);
    EXPECT_NE(why.message().find("no direct path"), std::string::npos) << why.message();
    EXPECT_NE(why.message().find("dram"), std::string::npos) << why.message();
    EXPECT_EQ(mover.bytes(from.tier().kind(), to.tier().kind()), 0u);
  }
}

TEST_P(Moves, ZeroBytesOnlyFollow) {
  const auto nvme = Tier::nvme(platform(), ground.folders(1), 4096).value();
  const Extent none = nvme->allocate(0).value(), nothing = hbm->allocate(0).value();
  EXPECT_TRUE(mover.move(Region(), Region()).done());
  const Event before = busy();
  const Event moved = mover.move(none.region(), nothing.region(), before);
  EXPECT_TRUE(ground.wait(moved).ok());
  EXPECT_TRUE(before.done());
  const Event failed = Event::failed(Status(Code::corrupt, "bad"));
  EXPECT_EQ(mover.move(none.region(), nothing.region(), failed).status().code(), Code::corrupt);
}

TEST_P(Moves, ARegionOntoItselfIsNoWork) {
  const Extent a = dram->allocate(4096).value();
  EXPECT_TRUE(mover.move(a.region(), a.region()).done());
  const Event failed = Event::failed(Status(Code::corrupt, "bad"));
  EXPECT_EQ(ground.wait(mover.move(a.region(), a.region(), failed)).code(), Code::corrupt);
  EXPECT_EQ(mover.bytes(TierKind::dram, TierKind::dram), 0u);
}

TEST_P(Moves, NothingMovesAfterAFailure) {
  const auto nvme = Tier::nvme(platform(), ground.folders(2), kMiB).value();
  const Extent a = dram->allocate(8192).value(), b = dram->allocate(8192).value();
  const Extent up = hbm->allocate(8192).value(), disk = nvme->allocate(8192).value();
  const std::vector<std::byte> kept = random_bytes(8192, 9);
  fill(b.region(), kept);
  const Event failed = Event::failed(Status(Code::corrupt, "bad"));
  for (const auto& [from, to] :
       {std::pair(a.region(), b.region()), std::pair(up.region(), b.region()),
        std::pair(disk.region(), b.region()), std::pair(b.region(), disk.region())}) {
    EXPECT_EQ(ground.wait(mover.move(from, to, failed)).code(), Code::corrupt);
  }
  EXPECT_TRUE(holds(b.region(), kept));
}

TEST_P(Moves, MovesStartWhenWhatTheyFollowIsOver) {
  const auto nvme = Tier::nvme(platform(), ground.folders(2), kMiB).value();
  const Extent a = dram->allocate(8192).value(), b = dram->allocate(8192).value();
  const Extent up = hbm->allocate(8192).value(), disk = nvme->allocate(8192).value();
  for (const auto& [from, to] :
       {std::pair(a.region(), b.region()), std::pair(a.region(), up.region()),
        std::pair(a.region(), disk.region()), std::pair(disk.region(), b.region())}) {
    const Event before = busy();
    ASSERT_TRUE(ground.wait(mover.move(from, to, before)).ok());
    EXPECT_TRUE(before.done());
  }
}

TEST_P(Moves, CancelledMovesEndAndTouchNothing) {
  const auto nvme = Tier::nvme(platform(), ground.folders(2), kMiB).value();
  const Extent mine = dram->allocate(8192).value(), theirs = dram->allocate(8192).value();
  const Extent up = hbm->allocate(8192).value(), disk = nvme->allocate(8192).value();
  const Extent up2 = hbm->allocate(8192).value();
  const std::vector<std::byte> kept = random_bytes(8192, 9);
  const Event before = busy();
  Mover other(platform(), platform().new_owner(), "other");
  const Event unharmed = other.move(theirs.region(), up2.region(), before);
  std::vector<Event> moves;
  std::vector<Extent> targets;
  for (const Region& from : {mine.region(), up.region(), disk.region()}) {
    targets.push_back(dram->allocate(8192).value());
    fill(targets.back().region(), kept);
    moves.push_back(mover.move(from, targets.back().region(), before));
  }
  mover.cancel();
  EXPECT_TRUE(ground.wait(unharmed).ok());
  for (std::size_t k = 0; k < moves.size(); ++k) {
    const Status how = ground.wait(moves[k]);
    if (GetParam() != GroundKind::simulated && how.ok()) continue;  // it had started before
    EXPECT_EQ(how.code(), Code::cancelled) << how.message();
    EXPECT_TRUE(holds(targets[k].region(), kept));
  }
}

// One move of eight meets an error in one of its three pieces: the other seven are right.
TEST_P(Moves, AFailedReadSpoilsItsMoveOnly) {
  NvmeOptions options;
  options.stripe_bytes = 4096;
  const auto nvme = Tier::nvme(platform(), ground.folders(3), kMiB, options).value();
  const Extent disk = nvme->allocate(8 * 12288).value();
  const Extent from = dram->allocate(8 * 12288).value(), to = dram->allocate(8 * 12288).value();
  const std::vector<std::byte> sent = random_bytes(8 * 12288, 4);
  fill(from.region(), sent);
  ASSERT_TRUE(ground.wait(mover.move(from.region(), disk.region())).ok());
  faults->add({.kind = FaultKind::error, .direction = Direction::read, .first = 4});
  std::vector<Event> reads;
  for (std::uint64_t k = 0; k < 8; ++k)
    reads.push_back(
        mover.move(disk.region().sub(k * 12288, 12288), to.region().sub(k * 12288, 12288)));
  int failed = 0;
  for (std::size_t k = 0; k < 8; ++k) {
    const Status how = ground.wait(reads[k]);
    failed += how.code() == Code::io ? 1 : 0;
    if (how.ok()) {
      EXPECT_TRUE(
          holds(to.region().sub(k * 12288, 12288), ConstBytes(sent).subspan(k * 12288, 12288)));
    }
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(faults->struck(), 1u);
  ASSERT_TRUE(ground.wait(mover.move(disk.region(), to.region())).ok());
  EXPECT_TRUE(holds(to.region(), sent));
}

TEST_P(Moves, BytesAreCounted) {
  const auto nvme = Tier::nvme(platform(), ground.folders(2), kMiB).value();
  const Extent a = dram->allocate(8192).value(), disk = nvme->allocate(8192).value();
  const Extent up = hbm->allocate(8192).value();
  const Event stored = mover.move(a.region(), disk.region());
  const Event again = mover.move(a.region().sub(0, 4096), disk.region().sub(4096, 4096), stored);
  const Event loaded = mover.move(disk.region(), a.region(), again);
  ASSERT_TRUE(ground.wait(mover.move(a.region(), up.region(), loaded)).ok());
  EXPECT_EQ(mover.bytes(TierKind::dram, TierKind::nvme), 12288u);
  EXPECT_EQ(mover.bytes(TierKind::nvme, TierKind::dram), 8192u);
  EXPECT_EQ(mover.bytes(TierKind::dram, TierKind::hbm), 8192u);
  ASSERT_EQ(mover.usage().size(), 2u);
  EXPECT_EQ(mover.usage()[0].written_bytes, 8192u);
  EXPECT_EQ(mover.usage()[0].name, "step up");
  EXPECT_EQ(mover.usage()[1].written_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Grounds, Moves,
                         testing::Values(GroundKind::simulated, GroundKind::posix,
                                         GroundKind::uring),
                         ground_name);

// Past what 32 bits can say, in sectors too small to be mistaken for their neighbours.
TEST(RealMoves, OffsetsHave64Bits) {
  Ground ground(GroundKind::posix);
  constexpr std::uint64_t kSpace = 5 * kGiB;
  struct statfs facts {};
  ASSERT_EQ(statfs(ground.root().c_str(), &facts), 0);
  constexpr decltype(facts.f_type) kTmpfs = 0x01021994;
  if (facts.f_type == kTmpfs) GTEST_SKIP() << "temporary folders are memory here";
  if (std::filesystem::space(ground.root()).available < 2 * kSpace)
    GTEST_SKIP() << "less than 10 GiB free in " << ground.root();
  const auto nvme = Tier::nvme(ground.platform(), ground.folders(1), kSpace).value();
  const auto dram = Tier::dram(ground.platform(), 65536).value();
  Mover mover(ground.platform(), ground.platform().new_owner());
  const Extent whole = nvme->allocate(kSpace).value();
  const Extent from = dram->allocate(8192).value(), to = dram->allocate(8192).value();
  std::vector<Event> ends;
  const std::uint64_t places[] = {0, kSpace - 8192, 4 * kGiB};
  for (const std::uint64_t place : places) {
    const std::vector<std::byte> sent = random_bytes(8192, place + 1);
    fill(from.region(), sent);
    ASSERT_TRUE(ground.wait(mover.move(from.region(), whole.region().sub(place, 8192))).ok());
  }
  for (const std::uint64_t place : places) {
    ASSERT_TRUE(ground.wait(mover.move(whole.region().sub(place, 8192), to.region())).ok());
    EXPECT_TRUE(holds(to.region(), random_bytes(8192, place + 1))) << "at " << place;
  }
}

}  // namespace
}  // namespace headrace
