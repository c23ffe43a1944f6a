// The simulated machine with random programs and random faults: 20,000 seeds in the ordinary run,
// a tenth under sanitizers, as many as asked for with
//
//   simulation_test --seeds 1000000 [--from 1]
//   simulation_test --seed 1234 [--keep 0,3,7]
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>

#include "tests/simulation/campaign.h"

namespace headrace::simulation {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeedsOfAPart = 500;
#else
constexpr std::uint64_t kSeedsOfAPart = 5'000;
#endif

Counts expect_all_well(const Campaign& campaign) {
  EXPECT_FALSE(campaign.failure) << *campaign.failure;
  std::puts(to_string(campaign.counts).c_str());
  return campaign.counts;
}

// In parts, so that they run on all cores.
class Campaigns : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Campaigns, EverySeedGivesTheRightBitsOrAClearError) {
  const Counts counts = expect_all_well(run_seeds(GetParam() * kSeedsOfAPart, kSeedsOfAPart));
  // It is worth something only if all of this happens.
  EXPECT_GT(counts.steps, kSeedsOfAPart);
  for (const std::uint64_t happened : {counts.skipped, counts.saves, counts.loads, counts.crashes,
                                       counts.poisoned, counts.corrupt, counts.refused})
    EXPECT_GT(happened, kSeedsOfAPart / 200);
  EXPECT_LT(counts.unbuildable, kSeedsOfAPart / 20);
}

INSTANTIATE_TEST_SUITE_P(Part, Campaigns, testing::Range<std::uint64_t>(0, 4));

class StressCampaigns : public testing::TestWithParam<std::uint64_t> {};

TEST_P(StressCampaigns, ManyMoreSeeds) {
  const std::uint64_t first = std::random_device()();
  std::printf("from seed %llu\n", static_cast<unsigned long long>(first));
  expect_all_well(run_seeds_in_children(first << 20, 100 * kSeedsOfAPart));
}

INSTANTIATE_TEST_SUITE_P(StressPart, StressCampaigns, testing::Range<std::uint64_t>(0, 4));

}  // namespace
}  // namespace headrace::simulation

namespace {

struct Asked {
  std::uint64_t from = 1, seeds = 0;
  std::optional<std::uint64_t> seed;
  std::vector<std::size_t> keep;
};

Asked parse(int count, char** words) {
  Asked asked;
  for (int i = 1; i + 1 < count; ++i) {
    const std::string word = words[i];
    if (word == "--from") asked.from = std::strtoull(words[++i], nullptr, 10);
    if (word == "--seeds") asked.seeds = std::strtoull(words[++i], nullptr, 10);
    if (word == "--seed") asked.seed = std::strtoull(words[++i], nullptr, 10);
    if (word != "--keep") continue;
    std::stringstream numbers(words[++i]);
    for (std::string number; std::getline(numbers, number, ',');)
      asked.keep.push_back(std::strtoull(number.c_str(), nullptr, 10));
  }
  return asked;
}

}  // namespace

int main(int count, char** words) {
  using namespace headrace::simulation;
  // An engine's few MiB come and go with each seed: without faults of pages.
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  testing::InitGoogleTest(&count, words);
  const Asked asked = parse(count, words);
  if (!asked.seed && asked.seeds == 0) return RUN_ALL_TESTS();
  if (asked.seed) std::puts(describe(*asked.seed).c_str());
  const Campaign campaign = asked.seed ? run_seed(*asked.seed, asked.keep)
                                       : run_seeds_in_children(asked.from, asked.seeds);
  std::puts(to_string(campaign.counts).c_str());
  if (campaign.failure) std::puts(campaign.failure->c_str());
  return campaign.failure ? 1 : 0;
}
