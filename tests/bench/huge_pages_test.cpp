#include "bench/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace headrace::bench {
namespace {

TEST(Pages, LieOnAHugePageAndHoldAtLeastWhatWasAskedFor) {
  const Result<Pages> pages = Pages::allocate(3 * kMiB);
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages->bytes().data()) % (2 * kMiB), 0u);
  EXPECT_GE(pages->bytes().size(), 3 * kMiB);
  for (const std::byte byte : pages->bytes()) ASSERT_EQ(byte, std::byte{0});
}

TEST(Pages, AreMovedWithTheirContents) {
  Pages first = *Pages::allocate(kMiB);
  first.bytes().back() = std::byte{7};
  Pages second = std::move(first);
  EXPECT_EQ(second.bytes().back(), std::byte{7});
  second = *Pages::allocate(kMiB);
  EXPECT_EQ(second.bytes().back(), std::byte{0});
}

TEST(Pages, RefusalNamesTheSize) {
  const Result<Pages> pages = Pages::allocate(std::size_t{1} << 60);
  ASSERT_FALSE(pages.ok());
  EXPECT_EQ(pages.status().code(), Code::out_of_memory);
}

}  // namespace
}  // namespace headrace::bench
