// Paths of different speed, in virtual time.
#include "tiers/path_rates.h"

#include <gtest/gtest.h>

#include "io/faults.h"
#include "tests/support/temporary_folder.h"
#include "tiers/mover.h"

namespace headrace {
namespace {

constexpr std::uint64_t kRate = 300'000'000;

// The first drive asked for gives `kRate`, the second one a third of it.
SimulationOptions two_drives() {
  SimulationOptions options;
  options.disk_bytes = 512 * kMiB;
  options.disk_read_bytes_per_second = options.disk_write_bytes_per_second = 50'000'000'000;
  options.wrap_engine = [next = 0](std::unique_ptr<IoEngine> inner, Clock& clock) mutable {
    const std::uint64_t rate = next++ == 0 ? kRate : kRate / 3;
    return rate_limited_engine(std::move(inner), {rate, rate}, &clock);
  };
  return options;
}

TEST(PathRates, AreThoseOfTheDrives) {
  const auto platform = Platform::simulate(two_drives());
  const std::vector<std::filesystem::path> folders = {"/disk0", "/disk1"};
  const std::vector<double> rates =
      measure_paths(*platform, folders, {}, 8 * kMiB, std::chrono::seconds(60)).value();
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_NEAR(rates[0] / kRate, 1, 0.02);
  EXPECT_NEAR(rates[1] / kRate, 1.0 / 3, 0.02);
  EXPECT_EQ(shares_of(rates), (std::vector{3U, 1U}));
}

TEST(PathRates, AFolderThatIsMissingIsNamed) {
  const TemporaryFolder root;
  const std::vector<std::filesystem::path> folders = {root.path(), root.path() / "gone"};
  const auto platform = Platform::open().value();
  const auto rates = measure_paths(*platform, folders, {}, kMiB, std::chrono::seconds(60));
  EXPECT_EQ(rates.status().code(), Code::invalid);
  EXPECT_NE(rates.status().message().find("gone"), std::string_view::npos);
}

TEST(PathRates, SharesAreWholeNumbersInProportion) {
  using Rates = std::vector<double>;
  using Shares = std::vector<unsigned>;
  EXPECT_EQ(shares_of(Rates{2e9}), Shares{1});
  EXPECT_EQ(shares_of(Rates{2.0e9, 2.2e9}), (Shares{1, 1}));  // no better is a measurement
  EXPECT_EQ(shares_of(Rates{3e9, 1e9}), (Shares{3, 1}));
  EXPECT_EQ(shares_of(Rates{7e9, 3.5e9, 3.5e9}), (Shares{2, 1, 1}));
  EXPECT_EQ(shares_of(Rates{1e9, 1e3}), (Shares{64, 1}));  // never nothing
}

// A range goes to the tier and comes back; the bound is what both drives give together.
TEST(PathRates, TwoDrivesOfThreeToOneGiveTheirSum) {
  const auto platform = Platform::simulate(two_drives());
  const std::vector<std::filesystem::path> folders = {"/disk0", "/disk1"};
  const std::vector<double> rates =
      measure_paths(*platform, folders, {}, 8 * kMiB, std::chrono::seconds(60)).value();
  NvmeOptions options;
  options.shares = shares_of(rates);
  constexpr std::uint64_t kBytes = 96 * kMiB;
  const auto nvme = Tier::nvme(*platform, folders, kBytes, options).value();
  const auto dram = Tier::dram(*platform, kBytes).value();
  Mover mover(*platform, platform->new_owner());
  const Extent there = nvme->allocate(kBytes).value(), here = dram->allocate(kBytes).value();
  const Nanoseconds start = platform->clock().now();
  const Event stored = mover.move(here.region(), there.region());
  ASSERT_TRUE(platform->wait(mover.move(there.region(), here.region(), stored), kForever).ok());
  const std::chrono::duration<double> taken = platform->clock().now() - start;
  const double bound = 2.0 * kBytes / (rates[0] + rates[1]);
  EXPECT_GE(bound / taken.count(), 0.95) << taken.count() << " s, bound " << bound << " s";
}

}  // namespace
}  // namespace headrace
