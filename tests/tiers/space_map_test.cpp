#include "tiers/space_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace headrace {
namespace {

// A byte per unit of space: what best fit means, without cleverness.
class NaiveMap {
 public:
  explicit NaiveMap(std::size_t capacity) : taken_(capacity, false) {}

  std::optional<std::uint64_t> take(std::uint64_t size, std::uint64_t alignment) {
    std::optional<std::uint64_t> best;
    std::uint64_t best_length = 0;
    for (std::uint64_t begin = 0; begin < taken_.size();) {
      std::uint64_t end = begin;
      while (end < taken_.size() && !taken_[end]) ++end;
      const std::uint64_t at = (begin + alignment - 1) / alignment * alignment;
      const bool fits = at + size <= end;
      if (fits && (!best || end - begin < best_length)) {
        best = at;
        best_length = end - begin;
      }
      begin = end + 1;
    }
    if (best) mark(*best, size, true);
    return best;
  }

  void mark(std::uint64_t offset, std::uint64_t size, bool taken) {
    for (std::uint64_t at = offset; at < offset + size; ++at) {
      ASSERT_NE(taken_[at], taken) << "at " << at;
      taken_[at] = taken;
    }
  }

  std::uint64_t used() const {
    return static_cast<std::uint64_t>(std::count(taken_.begin(), taken_.end(), true));
  }

 private:
  std::vector<bool> taken_;
};

struct Range {
  std::uint64_t offset, size;
};

TEST(SpaceMap, DoesWhatANaiveMapDoes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  constexpr std::size_t kCapacity = 600;
  SpaceMap map(kCapacity);
  NaiveMap naive(kCapacity);
  std::vector<Range> taken;
  for (int k = 0; k < 20000; ++k) {
    if (random() % 2 == 0 || taken.empty()) {
      const std::uint64_t size = 1 + random() % 60;
      const std::uint64_t alignment = 1 + random() % 9;
      const auto offset = map.take(size, alignment);
      ASSERT_EQ(offset, naive.take(size, alignment)) << "take " << size << " at " << alignment;
      if (offset) taken.push_back({*offset, size});
    } else {
      std::swap(taken[random() % taken.size()], taken.back());
      map.give_back(taken.back().offset, taken.back().size);
      naive.mark(taken.back().offset, taken.back().size, false);
      taken.pop_back();
    }
    ASSERT_EQ(map.used(), naive.used());
  }
  for (const Range& range : taken) map.give_back(range.offset, range.size);
  EXPECT_EQ(map.used(), 0u);
  EXPECT_EQ(map.largest_free(), kCapacity);  // all pieces have joined
}

TEST(SpaceMap, CountsIn64Bits) {
  constexpr std::uint64_t kTera = std::uint64_t{1} << 40;
  SpaceMap map(20 * kTera);
  EXPECT_EQ(map.take(7 * kTera, 4096), 0u);
  EXPECT_EQ(map.take(7 * kTera, 4096), 7 * kTera);
  EXPECT_FALSE(map.take(7 * kTera, 4096));
  map.give_back(0, 7 * kTera);
  EXPECT_EQ(map.largest_free(), 7 * kTera);
  EXPECT_EQ(map.used(), 7 * kTera);
}

TEST(SpaceMap, TakesTheSmallestRangeThatHolds) {
  SpaceMap map(100);
  const auto a = map.take(30, 1), b = map.take(10, 1), c = map.take(10, 1), d = map.take(10, 1);
  map.give_back(*a, 30);
  map.give_back(*c, 10);
  EXPECT_EQ(map.take(9, 1), *c);
  EXPECT_EQ(map.take(11, 1), *a);
  EXPECT_EQ(map.used(), 40u);
  EXPECT_TRUE(b && d);
}

TEST(SpaceMap, AnEmptySpaceHoldsNothing) {
  SpaceMap map(0);
  EXPECT_FALSE(map.take(1, 1));
  EXPECT_EQ(map.largest_free(), 0u);
}

TEST(SpaceMap, GivingBackTwiceIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  SpaceMap map(100);
  ASSERT_TRUE(map.take(50, 1));
  ASSERT_TRUE(map.take(50, 1));
  map.give_back(0, 50);
  EXPECT_DEATH(map.give_back(0, 50), "");
}

}  // namespace
}  // namespace headrace
