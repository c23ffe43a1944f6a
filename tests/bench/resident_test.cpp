#include "bench/resident.h"

#include <gtest/gtest.h>

#include <cstring>

#include "bench/huge_pages.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kSome = 64 * kMiB;

TEST(Resident, PeakRemembersMemoryThatIsGone) {
  const std::uint64_t before = resident_bytes();
  ASSERT_GT(before, 0u);
  {
    const Pages pages = *Pages::allocate(kSome);
    std::memset(pages.bytes().data(), 1, kSome);
    EXPECT_GE(resident_bytes(), before + kSome / 2);
  }
  EXPECT_GE(peak_resident_bytes(), before + kSome / 2);
}

TEST(Resident, PeakBeginsAgainWhenReset) {
  {
    const Pages pages = *Pages::allocate(kSome);
    std::memset(pages.bytes().data(), 1, kSome);
  }
  const std::uint64_t with_pages = peak_resident_bytes();
  if (!reset_peak_resident()) GTEST_SKIP() << "the kernel does not let the peak be reset";
  EXPECT_LE(peak_resident_bytes(), with_pages - kSome / 2);
}

}  // namespace
}  // namespace headrace::bench
