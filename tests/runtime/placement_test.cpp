#include "runtime/placement.h"

#include <gtest/gtest.h>

#include <random>

namespace headrace {
namespace {

std::vector<ShardNeed> shards_of(std::size_t count, std::uint64_t bytes) {
  return std::vector<ShardNeed>(count, ShardNeed{bytes});
}

TEST(Placement, WithoutBudgetsEverythingStaysInDram) {
  const Result<Plan> plan = place(shards_of(10, 4096), {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->dram_bytes, 40960u);
  EXPECT_EQ(plan->slots, 0);
  EXPECT_NE(plan->words.find("DRAM"), std::string::npos);
}

TEST(Placement, TheFirstShardsArePinnedAfterTheSlots) {
  const Result<Plan> plan =
      place(shards_of(10, 100),
            {.state = StateHome::nvme, .dram_bytes = 750, .has_nvme = true, .slots = 4});
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->slots, 4);
  EXPECT_EQ(plan->slot_bytes, 100u);
  EXPECT_EQ(plan->dram_bytes, 300u);  // 750 - 4 x 100, whole shards
  EXPECT_EQ(plan->nvme_bytes, 700u);
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_EQ(plan->homes[i], i < 3 ? TierKind::dram : TierKind::nvme);
}

TEST(Placement, BudgetsAreFilledInTheOrderDramHbmNvme) {
  const Result<Plan> plan = place(
      shards_of(10, 100), {.dram_bytes = 500, .hbm_bytes = 250, .has_nvme = true, .slots = 3});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->dram_bytes, 200u);
  EXPECT_EQ(plan->hbm_bytes, 200u);
  EXPECT_EQ(plan->nvme_bytes, 600u);
}

TEST(Placement, ABudgetThatHoldsNoSlotsIsRefusedWithEachTermOfTheSum) {
  const Result<Plan> plan =
      place(shards_of(10, 100'000'000),
            {.state = StateHome::nvme, .dram_bytes = 90'000'000, .has_nvme = true, .slots = 4});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::out_of_memory);
  for (const char* term : {"90.0 MB", "1.00 GB", "4 slots", "100 MB", "400 MB"})
    EXPECT_NE(plan.status().message().find(term), std::string::npos)
        << term << " in " << plan.status().message();
}

TEST(Placement, WhatFitsNowhereIsRefused) {
  EXPECT_EQ(
      place(shards_of(10, 100), {.state = StateHome::dram, .dram_bytes = 999}).status().code(),
      Code::out_of_memory);
  EXPECT_EQ(place(shards_of(10, 100), {.dram_bytes = 999}).status().code(), Code::out_of_memory);
  EXPECT_EQ(place(shards_of(10, 100), {.state = StateHome::hbm, .hbm_bytes = 999}).status().code(),
            Code::out_of_memory);
  EXPECT_EQ(
      place(shards_of(10, 100), {.state = StateHome::nvme, .nvme_bytes = 999, .has_nvme = true})
          .status()
          .code(),
      Code::out_of_space);
}

TEST(Placement, NoMoreSlotsThanShards) {
  const Result<Plan> plan =
      place(shards_of(2, 100), {.state = StateHome::nvme, .has_nvme = true, .slots = 8});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->slots, 2);
}

TEST(Placement, AModelWithoutStateNeedsNothing) {
  const Result<Plan> plan = place({}, {.state = StateHome::nvme, .has_nvme = true});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->slots, 0);
}

TEST(Placement, NeverPassesABudgetForRandomModels) {
  const std::uint64_t seed = std::random_device()();
  std::printf("seed %lu\n", seed);
  std::mt19937_64 random(seed);
  int placed = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<ShardNeed> shards(1 + random() % 40);
    std::uint64_t total = 0;
    for (ShardNeed& shard : shards) total += shard.state_bytes = 1 + random() % 1000;
    const Budgets budgets{.dram_bytes = 1 + random() % (2 * total),
                          .hbm_bytes = random() % total,
                          .nvme_bytes = 0,
                          .has_nvme = random() % 2 == 0,
                          .slots = static_cast<int>(2 + random() % 6)};
    const Result<Plan> plan = place(shards, budgets);
    if (!plan.ok()) continue;
    ++placed;
    const std::uint64_t slots = static_cast<std::uint64_t>(plan->slots) * plan->slot_bytes;
    EXPECT_LE(plan->dram_bytes + slots, budgets.dram_bytes);
    EXPECT_LE(plan->hbm_bytes, budgets.hbm_bytes);
    EXPECT_EQ(plan->dram_bytes + plan->hbm_bytes + plan->nvme_bytes, total);
  }
  EXPECT_GT(placed, 200);
}

TEST(Placement, TheDefaultShardIsWhatDividesTheBudgetAmongTheSlots) {
  EXPECT_EQ(default_shard_bytes(96 * kMiB, 4), 24 * kMiB);
  EXPECT_EQ(default_shard_bytes(kGiB, 4), 32 * kMiB);
  EXPECT_EQ(default_shard_bytes(0, 4), 32 * kMiB);
}

}  // namespace
}  // namespace headrace
