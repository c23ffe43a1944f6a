#include "examples/train_gpt/utf8.h"

#include <string_view>

#include <gtest/gtest.h>

namespace train_gpt {
namespace {

std::span<const std::uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

TEST(Utf8Test, EveryLengthOfCharacterIsAccepted) {
  EXPECT_TRUE(well_formed(bytes("")));
  EXPECT_TRUE(well_formed(bytes("plain")));
  EXPECT_TRUE(well_formed(bytes("\xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEF\xBF\xBF")));
  EXPECT_TRUE(well_formed(bytes("\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF")));
}

TEST(Utf8Test, IllFormedBytesAreRefused) {
  for (const std::string_view text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
        "\xE2\x82(", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(well_formed(bytes(text))) << ::testing::PrintToString(text);
  }
}

TEST(Utf8Test, PrintableTextHoldsNoControlCharacters) {
  EXPECT_EQ(printable(bytes("a\tb\nc \xC3\xA9")), "a\tb\nc \xC3\xA9");
  EXPECT_EQ(printable(bytes("\x1B[31m \x07 \x7F \xC2\x9B \xFF \xE2\x82")), "?[31m ? ? ? ? ??");
}

}  // namespace
}  // namespace train_gpt
