#include "bench/sizes.h"

#include <gtest/gtest.h>

#include <string>

namespace headrace {
namespace {

std::uint64_t size_of_text(std::string_view text) {
  const Result<std::uint64_t> size = parse_size(text);
  EXPECT_TRUE(size.ok()) << text << ": " << size.status().to_string();
  return size.ok() ? *size : ~std::uint64_t{0};
}

TEST(ParseSize, KnowsBinaryAndDecimalUnits) {
  EXPECT_EQ(size_of_text("64KiB"), 65'536u);
  EXPECT_EQ(size_of_text("96MiB"), 100'663'296u);
  EXPECT_EQ(size_of_text("2GiB"), 2'147'483'648u);
  EXPECT_EQ(size_of_text("1TiB"), 1'099'511'627'776u);
  EXPECT_EQ(size_of_text("64KB"), 64'000u);
  EXPECT_EQ(size_of_text("96MB"), 96'000'000u);
  EXPECT_EQ(size_of_text("2GB"), 2'000'000'000u);
  EXPECT_EQ(size_of_text("1TB"), 1'000'000'000'000u);
}

TEST(ParseSize, ReadsBareLettersAsFioDoes) {
  EXPECT_EQ(size_of_text("4k"), 4'096u);
  EXPECT_EQ(size_of_text("4M"), 4'194'304u);
  EXPECT_EQ(size_of_text("1G"), 1'073'741'824u);
  EXPECT_EQ(size_of_text("1T"), 1'099'511'627'776u);
}

TEST(ParseSize, ReadsPlainNumbersFractionsAndExponents) {
  EXPECT_EQ(size_of_text("0"), 0u);
  EXPECT_EQ(size_of_text("512"), 512u);
  EXPECT_EQ(size_of_text("512B"), 512u);
  EXPECT_EQ(size_of_text("1e9"), 1'000'000'000u);
  EXPECT_EQ(size_of_text("1.5GB"), 1'500'000'000u);
  EXPECT_EQ(size_of_text("0.5KiB"), 512u);
  EXPECT_EQ(size_of_text("1.5 GiB"), 1'610'612'736u);
}

TEST(ParseSize, IgnoresTheCaseOfUnits) {
  EXPECT_EQ(size_of_text("64kib"), size_of_text("64KIB"));
  EXPECT_EQ(size_of_text("3gb"), 3'000'000'000u);
}

TEST(ParseSize, IsExactUpToTheLargestSize) {
  EXPECT_EQ(size_of_text("9223372036854775807"), 9'223'372'036'854'775'807u);
  EXPECT_EQ(size_of_text("9007199254740993"), 9'007'199'254'740'993u);  // 2^53 + 1
}

TEST(ParseSize, RefusesWhatIsNotASizeAndNamesIt) {
  for (const char* text :
       {"", "abc", "KiB", "12XB", "1.5", "-1", "-0.5KiB", "-0", "1e", "10 10", "nan", "inf",
        "1e400", "64KiBs", "0x10", "1,5GB", "9223372036854775808", "8388608TiB", " 1"}) {
    const Result<std::uint64_t> size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text << " gave " << *size;
    EXPECT_EQ(size.status().code(), Code::invalid);
    EXPECT_NE(size.status().message().find('"' + std::string(text) + '"'), std::string::npos);
  }
}

TEST(ParseCount, KnowsThousandsMillionsAndBillions) {
  EXPECT_EQ(*parse_count("7e9"), 7'000'000'000u);
  EXPECT_EQ(*parse_count("7B"), 7'000'000'000u);
  EXPECT_EQ(*parse_count("1.5b"), 1'500'000'000u);
  EXPECT_EQ(*parse_count("350M"), 350'000'000u);
  EXPECT_EQ(*parse_count("64k"), 64'000u);
  EXPECT_EQ(*parse_count("12"), 12u);
  for (const char* text : {"", "7GB", "-7B", "0.5", "seven", "1e30"}) {
    const Result<std::uint64_t> count = parse_count(text);
    ASSERT_FALSE(count.ok()) << text << " gave " << *count;
    EXPECT_NE(count.status().message().find('"' + std::string(text) + '"'), std::string::npos);
  }
}

}  // namespace
}  // namespace headrace
