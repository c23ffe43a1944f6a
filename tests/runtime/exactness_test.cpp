// The same bits, whatever the tier, slot count, shard size, format, thread count, SIMD target and
// platform.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "optim_cpu/team.h"
#include "tests/runtime/exact_model.h"
#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

// TSan looks at every element's every access, and bits are not its matter: a quarter of the cases.
#ifdef __SANITIZE_THREAD__
constexpr std::array kSlotCounts = {2, 5};
constexpr std::array<std::uint64_t, 2> kShardBytes = {100'001, 4 * kMiB};
#else
constexpr std::array kSlotCounts = {2, 3, 5, 8};
constexpr std::array<std::uint64_t, 4> kShardBytes = {64 * kKiB, 100'001, 300 * kKiB, 4 * kMiB};
#endif
constexpr std::array kFormats = {StateFormat::fp32, StateFormat::split};

enum class Where { dram, hbm, nvme, mixed };

struct Case {
  Where where;
  StateFormat format;
  int slots;
  std::uint64_t shard_bytes;
  int threads = 2;
  std::int64_t target = 0;
  std::string words() const {
    return fmt::format("where {} format {} slots {} shard {} threads {} target {}",
                       static_cast<int>(where), static_cast<int>(format), slots, shard_bytes,
                       threads, target_name(target));
  }
};

EngineOptions options_of(const Case& c, const std::filesystem::path& folder) {
  EngineOptions options;
  options.format = c.format;
  options.slots = c.slots;
  options.shard_bytes = c.shard_bytes;
  options.threads = c.threads;
  options.simd_target = c.target;
  if (c.where == Where::dram) options.state = StateHome::dram;
  if (c.where == Where::hbm) options.state = StateHome::hbm;
  if (c.where == Where::nvme) options.state = StateHome::nvme;
  if (c.where == Where::nvme || c.where == Where::mixed) options.nvme_paths = {folder};
  if (c.where == Where::mixed) {  // the slots, and about a third of the state on each tier
    const std::uint64_t slot = std::min<std::uint64_t>(c.shard_bytes, 2'500'000);
    options.dram_bytes = static_cast<std::uint64_t>(c.slots) * slot + 900 * kKiB;
    options.hbm_bytes = 900 * kKiB;
  }
  return options;
}

Result<std::uint64_t> hash_of(Platform& platform, const Case& c,
                              const std::filesystem::path& folder) {
  HEADRACE_ASSIGN(const std::unique_ptr<Engine> engine,
                  Engine::open(platform, options_of(c, folder)));
  HEADRACE_TRY(exact::build(*engine));
  HEADRACE_TRY(exact::train(*engine));
  return exact::hash(*engine);
}

// The hash that every case must have: state in DRAM, in one thread, scalar code.
std::uint64_t expected() {
  static const std::uint64_t hash = [] {
    const auto platform = Platform::open();
    const Case plain{Where::dram, StateFormat::fp32, 2, 4 * kMiB, 1, available_targets().back()};
    return hash_of(**platform, plain, {}).value();
  }();
  return hash;
}

std::vector<Case> over_slots_and_shards(std::span<const Where> places) {
  std::vector<Case> cases;
  for (const Where where : places)
    for (const StateFormat format : kFormats)
      for (const int slots : kSlotCounts)
        for (const std::uint64_t bytes : kShardBytes)
          cases.push_back({where, format, slots, bytes});
  return cases;
}

std::vector<Case> over_shards(int threads, std::int64_t target) {
  std::vector<Case> cases;
  for (const StateFormat format : kFormats)
    for (const std::uint64_t bytes : kShardBytes)
      cases.push_back({Where::dram, format, 2, bytes, threads, target});
  return cases;
}

std::vector<Case> over_teams() {
  std::vector<Case> cases;
  for (const std::int64_t target : available_targets())
    for (const int threads : {1, 2}) {
      if (threads == 2 && target == available_targets().front()) continue;  // the other cases
      const std::vector<Case> more = over_shards(threads, target);
      cases.insert(cases.end(), more.begin(), more.end());
    }
  return cases;
}

void expect_same_bits(Platform& platform, std::span<const Case> cases) {
  const TemporaryFolder folder;
  for (const Case& c : cases) {
    const Result<std::uint64_t> hash = hash_of(platform, c, folder.path());
    ASSERT_TRUE(hash.ok()) << c.words() << ": " << hash.status().to_string();
    ASSERT_EQ(*hash, expected()) << c.words();
  }
}

std::unique_ptr<Platform> real(IoBackend io) {
  PlatformOptions options;
  options.io = io;
  return Platform::open(std::move(options)).value();
}

std::unique_ptr<Platform> simulated(std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  return Platform::simulate(std::move(options));
}

TEST(Exactness, OneHashWithStateOnTheDevice) {
  const auto platform = real(IoBackend::automatic);
  expect_same_bits(*platform, over_slots_and_shards(std::array{Where::hbm}));
}

TEST(Exactness, OneHashWithStateOnNvmeThroughIoUring) {
  const auto platform = Platform::open({.io = IoBackend::uring});
  if (!platform.ok()) GTEST_SKIP() << platform.status().to_string();
  expect_same_bits(**platform, over_slots_and_shards(std::array{Where::nvme}));
}

TEST(Exactness, OneHashWithStateOnNvmeThroughThreads) {
  const auto platform = real(IoBackend::posix);
  expect_same_bits(*platform, over_slots_and_shards(std::array{Where::nvme}));
}

TEST(Exactness, OneHashWithStateOnAllTiersByBudget) {
  const auto platform = real(IoBackend::automatic);
  expect_same_bits(*platform, over_slots_and_shards(std::array{Where::mixed}));
}

TEST(Exactness, OneHashForEveryTeamAndTarget) {
  const auto platform = real(IoBackend::automatic);
  expect_same_bits(*platform, over_shards(2, available_targets().front()));
  expect_same_bits(*platform, over_teams());
}

TEST(Exactness, OneHashOnTheSimulatedPlatform) {
  const auto platform = simulated(7);
  constexpr std::array kPlaces = {Where::hbm, Where::nvme, Where::mixed};
  expect_same_bits(*platform, over_slots_and_shards(kPlaces));
  expect_same_bits(*platform, over_shards(1, 0));
}

// The numbers of cases of the tests above, by the machine's targets: 264 for two of them.
TEST(Exactness, EveryCombinationIsACase) {
  if (kSlotCounts.size() * kShardBytes.size() < 16) GTEST_SKIP() << "a quarter of them under TSan";
  const std::size_t targets = available_targets().size();
  const std::size_t real_tiers =
      4 * over_slots_and_shards(std::array{Where::hbm}).size() + over_shards(2, 0).size();
  const std::size_t simulated_tiers =
      3 * over_slots_and_shards(std::array{Where::hbm}).size() + over_shards(1, 0).size();
  const std::size_t cases = real_tiers + over_teams().size() + simulated_tiers;
  EXPECT_EQ(over_teams().size(), 8 * (2 * targets - 1));
  EXPECT_EQ(cases, 264 + 8 * 2 * (targets - 2));
  std::printf("%zu cases on %zu targets\n", cases, targets);
}

// Every place with every slot count, shard size, format, thread count and target.
TEST(StressExactness, OneHashOverTheFullProduct) {
  const auto platform = real(IoBackend::automatic);
  std::vector<Case> cases;
  for (const Where where : {Where::dram, Where::hbm, Where::nvme, Where::mixed})
    for (Case c : over_slots_and_shards(std::array{where}))
      for (const std::int64_t target : available_targets())
        for (const int threads : {1, 2}) {
          c.target = target;
          c.threads = threads;
          cases.push_back(c);
        }
  std::printf("%zu cases\n", cases.size());
  expect_same_bits(*platform, cases);
}

TEST(Exactness, TwoEnginesOnOnePlatformGiveTheSameBits) {
  const auto platform = real(IoBackend::automatic);
  const TemporaryFolder folder;
  const Case first{Where::nvme, StateFormat::split, 3, 100'001};
  const Case second{Where::dram, StateFormat::fp32, 2, 300 * kKiB};
  const auto one = Engine::open(*platform, options_of(first, folder.path())).value();
  const auto two = Engine::open(*platform, options_of(second, folder.path())).value();
  for (Engine* engine : {one.get(), two.get()}) ASSERT_TRUE(exact::build(*engine).ok());
  for (int step = 0; step < exact::kSteps; ++step)
    for (Engine* engine : {one.get(), two.get()})
      ASSERT_TRUE(exact::train(*engine, step, step + 1).ok());
  EXPECT_EQ(exact::hash(*one).value(), expected());
  EXPECT_EQ(exact::hash(*two).value(), expected());
}

}  // namespace
}  // namespace headrace
