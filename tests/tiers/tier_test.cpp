#include "tiers/tier.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <numeric>

#include "tests/tiers/ground.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

class Tiers : public testing::TestWithParam<GroundKind> {
 protected:
  void SetUp() override {
    if (const std::string why = ground.missing(); !why.empty()) GTEST_SKIP() << why;
  }
  void TearDown() override {
    if (HasFailure()) fmt::print("seed {}\n", ground.seed());
  }
  std::unique_ptr<Tier> open(TierKind kind, std::uint64_t capacity, NvmeOptions options = {}) {
    if (kind == TierKind::hbm) return Tier::hbm(ground.platform(), capacity).value();
    if (kind == TierKind::dram) return Tier::dram(ground.platform(), capacity).value();
    return Tier::nvme(ground.platform(), ground.folders(1), capacity, options).value();
  }

  Ground ground{GetParam()};
};

constexpr TierKind kKinds[] = {TierKind::hbm, TierKind::dram, TierKind::nvme};

bool mentions(const Status& why, std::initializer_list<const char*> parts) {
  return std::ranges::all_of(parts, [&](const char* part) {
    return std::string(why.message()).find(part) != std::string::npos;
  });
}

TEST_P(Tiers, ExtentsAreAlignedApartAndGivenBack) {
  for (const TierKind kind : kKinds) {
    const auto tier = open(kind, kMiB);
    std::vector<Extent> extents;
    for (const std::uint64_t size : {1U, 4096U, 5000U, 100'000U})
      extents.push_back(tier->allocate(size).value());
    std::uint64_t total = 0;
    for (const Extent& extent : extents) {
      EXPECT_EQ(extent.region().offset() % tier->alignment(), 0u);
      EXPECT_EQ(extent.region().size() % tier->alignment(), 0u);
      EXPECT_EQ(extent.region().offset(), total);
      total += extent.region().size();
    }
    EXPECT_EQ(tier->used(), total);
    EXPECT_EQ(tier->capacity(), kMiB);
    Extent moved = std::move(extents.back());
    extents.clear();
    EXPECT_EQ(tier->used(), moved.region().size());
    moved = Extent();
    EXPECT_EQ(tier->used(), 0u);
    EXPECT_TRUE(tier->allocate(kMiB).ok());
  }
}

TEST_P(Tiers, AFullTierNamesTheSum) {
  for (const TierKind kind : kKinds) {
    const auto tier = open(kind, 1'024'000);
    const Extent first = tier->allocate(400'000).value();
    const Status why = tier->allocate(800'000).status();
    EXPECT_EQ(why.code(), kind == TierKind::nvme ? Code::out_of_space : Code::out_of_memory);
    const std::string name = fmt::format("tier {}:", name_of(kind));
    EXPECT_TRUE(mentions(why, {name.c_str(), "asked", "of 1.02 MB used", "raise its capacity"}))
        << why.message();
    EXPECT_FALSE(tier->allocate(UINT64_MAX).ok());
    EXPECT_EQ(tier->used(), first.region().size());
  }
}

TEST_P(Tiers, ZeroBytesAreAnEmptyExtent) {
  for (const TierKind kind : kKinds) {
    const auto tier = open(kind, 0);
    const Extent none = tier->allocate(0).value();
    EXPECT_EQ(none.region().size(), 0u);
    EXPECT_EQ(&none.region().tier(), tier.get());
    EXPECT_FALSE(tier->allocate(1).ok());
  }
}

TEST_P(Tiers, AlignmentCanBeAskedFor) {
  NvmeOptions options;
  options.alignment = 65536;
  const auto disk = open(TierKind::nvme, 10 * kMiB, options);
  EXPECT_EQ(disk->alignment(), 65536u);
  EXPECT_EQ(disk->allocate(1).value().region().size(), 65536u);
  const auto dram = open(TierKind::dram, 3 * kMiB);
  const Extent small = dram->allocate(1).value();
  const Extent slot = dram->allocate_aligned(70'000, disk->alignment()).value();
  EXPECT_EQ(slot.region().size(), 2 * 65536u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot.region().view().data) % 65536, 0u);
}

TEST_P(Tiers, MemoryIsOneAllocationOfItsHome) {
  const auto dram = open(TierKind::dram, 100'000);
  const auto hbm = open(TierKind::hbm, 100'000);
  EXPECT_EQ(ground.platform().device().use(Home::host).used, 102'400u);
  EXPECT_EQ(ground.platform().device().use(Home::device).used, 102'400u);
  const Extent extent = hbm->allocate(100).value();
  EXPECT_EQ(extent.region().view().home, Home::device);
  EXPECT_EQ(extent.region().sub(10, 20).view().data, hbm->memory().data + 10);
  EXPECT_EQ(extent.region().sub(10, 20).view().size, 20u);
}

TEST_P(Tiers, PiecesCoverARangeOnceAndLoadPathsEvenly) {
  SCOPED_TRACE(fmt::format("seed {}", ground.seed()));
  std::mt19937_64 random(ground.seed());
  for (const std::size_t paths : {1U, 2U, 3U}) {
    NvmeOptions options;
    options.stripe_bytes = 10'000;  // rounded up to 12288
    const auto tier =
        Tier::nvme(ground.platform(), ground.folders(paths), 1'000'000, options).value();
    for (int k = 0; k < 50; ++k) {
      const std::uint64_t offset = random() % 200 * 4096, size = random() % 44 * 4096;
      std::uint64_t at = 0;
      for (const Piece& piece : tier->stripes().pieces(offset, size)) {
        EXPECT_EQ(piece.at, at);
        EXPECT_LE(piece.file_offset + piece.size, piece.file->info().size);
        at += piece.size;
      }
      EXPECT_EQ(at, size);
    }
    std::map<const File*, std::map<std::uint64_t, std::uint64_t>> parts;
    for (const Piece& piece : tier->stripes().pieces(0, tier->capacity()))
      EXPECT_TRUE(parts[piece.file].emplace(piece.file_offset, piece.size).second);
    EXPECT_EQ(parts.size(), paths);
    for (const auto& [file, pieces] : parts) {
      std::uint64_t end = 0;  // every file is filled from its start, without gap or overlap
      for (const auto& [offset, size] : pieces) {
        EXPECT_EQ(offset, end);
        end += size;
      }
      EXPECT_NEAR(static_cast<double>(end), static_cast<double>(tier->capacity() / paths), 12288);
    }
  }
}

TEST_P(Tiers, PiecesFollowTheShares) {
  constexpr std::uint64_t kStripe = 4096, kStripes = 100;
  for (const std::vector<unsigned>& shares : {std::vector{3U, 1U}, std::vector{1U, 7U, 2U}}) {
    NvmeOptions options;
    options.stripe_bytes = kStripe;
    options.shares = shares;
    const auto tier =
        Tier::nvme(ground.platform(), ground.folders(shares.size()), kStripes * kStripe, options)
            .value();
    const unsigned all = std::accumulate(shares.begin(), shares.end(), 0U);
    std::map<const File*, std::uint64_t> ends;
    std::uint64_t at = 0;
    for (const Piece& piece : tier->stripes().pieces(0, kStripes * kStripe)) {
      EXPECT_EQ(piece.at, at);
      EXPECT_EQ(piece.file_offset, ends[piece.file]);  // without gap or overlap
      ends[piece.file] += piece.size;
      at += piece.size;
      for (std::size_t k = 0; k < shares.size(); ++k) {  // never off by more than a stripe or so
        const File* const file = tier->stripes().front(k).file;
        EXPECT_NEAR(static_cast<double>(ends[file]) / kStripe,
                    static_cast<double>(at) / kStripe * shares[k] / all, 1.5);
      }
    }
    for (std::size_t k = 0; k < shares.size(); ++k)
      EXPECT_EQ(tier->stripes().file_bytes(k), ends[tier->stripes().front(k).file]);
  }
}

TEST_P(Tiers, AFullDiskIsAnErrorAtStart) {
  const std::uint64_t capacity = std::uint64_t{1} << 50;
  for (const std::size_t paths : {1U, 2U}) {
    const auto tier = Tier::nvme(ground.platform(), ground.folders(paths), capacity);
    ASSERT_FALSE(tier.ok());
    EXPECT_EQ(tier.status().code(), Code::out_of_space);
    EXPECT_TRUE(mentions(
        tier.status(), {"tier nvme needs 1.13 PB of scratch", "disk0", "free there", "add a path"}))
        << tier.status().message();
  }
  EXPECT_TRUE(Tier::nvme(ground.platform(), ground.folders(1), 1'000'000).ok());
}

TEST_P(Tiers, ABudgetThatIsTooSmallNamesTheTier) {
  const auto tier = Tier::hbm(ground.platform(), std::uint64_t{1} << 45);
  ASSERT_FALSE(tier.ok());
  EXPECT_EQ(tier.status().code(), Code::out_of_memory);
  EXPECT_TRUE(mentions(tier.status(), {"tier hbm", "missing"})) << tier.status().message();
  EXPECT_EQ(Tier::dram(ground.platform(), UINT64_MAX).status().code(), Code::invalid);
}

TEST_P(Tiers, WrongArgumentsAreInvalid) {
  EXPECT_EQ(Tier::nvme(ground.platform(), {}, 4096).status().code(), Code::invalid);
  EXPECT_EQ(Tier::nvme(ground.platform(), ground.folders(1), UINT64_MAX).status().code(),
            Code::invalid);
  NvmeOptions options;
  options.stripe_bytes = 0;
  EXPECT_EQ(Tier::nvme(ground.platform(), ground.folders(1), 4096, options).status().code(),
            Code::invalid);
}

TEST_P(Tiers, AnExtentThatOutlivesItsTierIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto tier = open(TierKind::dram, 8192);
        const Extent extent = tier->allocate(1).value();
        tier.reset();
      },
      "");
}

TEST_P(Tiers, MemoryIsRegisteredAndUnregistered) {
  IoQueue& queue = *ground.platform().queue_for(ground.folder(0)).value();
  for (int k = 0; k < 20; ++k) {  // forgotten registrations would add up
    const auto dram = open(TierKind::dram, 8 * kMiB);
    ASSERT_TRUE(ground.wait(dram->register_with(queue).over()).ok());
    if (k % 2 == 0) {
      ASSERT_TRUE(ground.wait(dram->unregister().over()).ok());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Grounds, Tiers,
                         testing::Values(GroundKind::simulated, GroundKind::posix,
                                         GroundKind::uring),
                         ground_name);

class RealTiers : public testing::Test {
 protected:
  Status open(const fs::path& folder) {
    return Tier::nvme(ground.platform(), std::vector{folder}, 4096).status();
  }
  Ground ground{GroundKind::posix};
};

TEST_F(RealTiers, AMissingFolderIsNamedWithTheCommandThatMakesIt) {
  const Status why = open(ground.root() / "none");
  EXPECT_EQ(why.code(), Code::invalid);
  EXPECT_TRUE(mentions(why, {"/none does not exist", "mkdir -p"})) << why.message();
  EXPECT_FALSE(fs::exists(ground.root() / "none"));
}

TEST_F(RealTiers, LinksAreNotFollowed) {
  fs::create_directory_symlink(ground.folder(0), ground.root() / "link");
  for (const char* name : {"link", "link/"}) {
    const Status why = open(ground.root() / name);
    EXPECT_EQ(why.code(), Code::invalid);
    EXPECT_TRUE(mentions(why, {"is a link"})) << why.message();
  }
}

TEST_F(RealTiers, AFileIsNoFolder) {
  std::ofstream(ground.root() / "file") << "text";
  const Status why = open(ground.root() / "file");
  EXPECT_EQ(why.code(), Code::invalid);
  EXPECT_TRUE(mentions(why, {"is not a folder"})) << why.message();
}

TEST_F(RealTiers, NothingIsSeenOrLeftInTheFolders) {
  const auto folders = ground.folders(2);
  const auto free = [&] { return fs::space(folders[0]).available; };
  {
    const auto tier = Tier::nvme(ground.platform(), folders, 64 * kMiB).value();
    const Extent extent = tier->allocate(kMiB).value();
    for (const fs::path& folder : folders) EXPECT_TRUE(fs::is_empty(folder));
    for (const Piece& piece : tier->stripes().pieces(0, tier->capacity()))
      EXPECT_EQ(piece.file->info().size, 32 * kMiB);
    EXPECT_GT(free(), 0u);
  }
  for (const fs::path& folder : folders) EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(RealTiers, TwoTiersInOneFolderDoNotMeet) {
  const auto one = Tier::nvme(ground.platform(), ground.folders(1), 8192).value();
  const auto two = Tier::nvme(ground.platform(), ground.folders(1), 8192).value();
  EXPECT_NE(one->stripes().pieces(0, 1)[0].file->info().handle,
            two->stripes().pieces(0, 1)[0].file->info().handle);
}

TEST_F(RealTiers, AFileSystemWithoutDirectIoIsSaidOnce) {
  std::error_code error;
  if (!fs::is_directory("/dev/shm", error)) GTEST_SKIP() << "no /dev/shm here";
  const TemporaryFolder folder("/dev/shm");
  const std::vector<fs::path> paths{folder.path()};
  for (int k = 0; k < 2; ++k) {
    const auto tier = Tier::nvme(ground.platform(), paths, 8192).value();
    if (tier->direct()) GTEST_SKIP() << "/dev/shm has direct I/O";
    EXPECT_EQ(tier->allocate(100).value().region().size() % tier->alignment(), 0u);
  }
  EXPECT_EQ(std::ranges::count_if(ground.said(),
                                  [](const std::string& text) {
                                    return text.find("direct I/O") != std::string::npos;
                                  }),
            1);
}

}  // namespace
}  // namespace headrace
