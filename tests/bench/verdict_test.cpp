#include "bench/verdict.h"

#include <gtest/gtest.h>

#include "io/bytes.h"

namespace headrace::bench {
namespace {

// A disk of 2 GB/s in each direction and mixed; memory of 26 GB/s, so that a core updates 1e9
// parameters a second in split.
MeasuredRates slow_disk() {
  return {.disk_read = 2e9,
          .disk_write = 2e9,
          .disk_mixed = 2e9,
          .update = 26e9,
          .norm = 20e9,
          .up = 20e9,
          .down = 10e9};
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Verdict, CostsAreTheBytesOverTheRates) {
  const StepCosts split = costs_of(slow_disk(), 1e9, StateFormat::split);
  EXPECT_DOUBLE_EQ(split.disk, 10.0);  // 20 bytes mixed
  EXPECT_DOUBLE_EQ(split.update, 1.0);
  EXPECT_DOUBLE_EQ(split.norm, 0.1);
  EXPECT_DOUBLE_EQ(split.copies, 0.2);
  EXPECT_DOUBLE_EQ(split.longest(), 10.0);
  const StepCosts fp32 = costs_of(slow_disk(), 1e9, StateFormat::fp32);
  EXPECT_DOUBLE_EQ(fp32.disk, 12.0);
  EXPECT_DOUBLE_EQ(fp32.update, 28.0 / 26);
}

TEST(Verdict, EachResourceCountsWhereItLimits) {
  const MeasuredRates rates = slow_disk();
  EXPECT_DOUBLE_EQ(costs_of(rates, 1e9, StateFormat::split, {.share = 0.5}).disk, 5.0);
  EXPECT_DOUBLE_EQ(costs_of(rates, 1e9, StateFormat::split, {.drives = 2}).disk, 5.0);
  EXPECT_DOUBLE_EQ(costs_of(rates, 1e9, StateFormat::split, {.cores = 2}).update, 0.5);
  MeasuredRates one_way = rates;
  one_way.disk_write = 0.5e9;
  EXPECT_DOUBLE_EQ(costs_of(one_way, 1e9, StateFormat::split).disk, 20.0);
}

TEST(Verdict, DramHoldsWhatIsLeftBesideTheSlots) {
  MeasuredRates rates = slow_disk();
  EXPECT_EQ(share_in_dram(rates, 1e9, StateFormat::split), 0);
  rates.dram_bytes = 128 * kMiB + 2'500'000'000;
  EXPECT_DOUBLE_EQ(share_in_dram(rates, 1e9, StateFormat::split), 0.25);
  rates.dram_bytes = 10'000'000'000;
  EXPECT_EQ(share_in_dram(rates, 1e9, StateFormat::split), 1);
}

TEST(Verdict, ThePageNamesTheLimitAndWhatWouldHelp) {
  const std::string page = verdict(slow_disk(), 1e9);
  EXPECT_TRUE(has(page, "the disk limits a step (split): 10.00 s")) << page;
  EXPECT_TRUE(has(page, "a second drive like this one: 5.00 s instead of 10.00 s")) << page;
  EXPECT_TRUE(has(page, "one GB more of DRAM for state: 9.00 s instead of 10.00 s")) << page;
  EXPECT_TRUE(has(page, "twice the cores and memory channels: no change")) << page;
  EXPECT_TRUE(has(page, "4 slots, shards of 33.6 MB")) << page;
}

TEST(Verdict, WhatFitsInDramStaysThere) {
  MeasuredRates rates = slow_disk();
  rates.dram_bytes = 20'000'000'000;
  const std::string page = verdict(rates, 1e9);
  EXPECT_TRUE(has(page, "leave it there")) << page;
  EXPECT_TRUE(has(page, "the update's memory traffic limits")) << page;
}

}  // namespace
}  // namespace headrace::bench
