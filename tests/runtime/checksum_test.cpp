#include "runtime/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace headrace {
namespace {

ConstBytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<std::byte> noise(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// The published values of xxHash's own specification and command line tool.
TEST(Checksum, IsXxh3WithSeedZero) {
  EXPECT_EQ(checksum({}), 0x2d06800538d394c2u);
  EXPECT_EQ(checksum(bytes_of("a")), 0xe6c632b61e964e1fu);
  EXPECT_EQ(checksum(bytes_of("abc")), 0x78af5f94892f3950u);
}

TEST(Checksum, PiecesGiveTheSameAsTheWhole) {
  const std::vector<std::byte> all = noise(1'000'003, 7);
  StreamingChecksum stream;
  std::size_t step = 1;
  for (std::size_t at = 0; at < all.size(); at += step, step = step * 3 % 50021 + 1)
    stream.update(ConstBytes(all).subspan(at, std::min(step, all.size() - at)));
  EXPECT_EQ(stream.digest(), checksum(all));
}

TEST(Checksum, ResetForgets) {
  StreamingChecksum stream;
  stream.update(bytes_of("something"));
  stream.reset();
  EXPECT_EQ(stream.digest(), checksum({}));
}

TEST(Checksum, MovingKeepsWhatWasGiven) {
  StreamingChecksum stream;
  stream.update(bytes_of("ab"));
  StreamingChecksum moved = std::move(stream);
  moved.update(bytes_of("c"));
  EXPECT_EQ(moved.digest(), checksum(bytes_of("abc")));
}

TEST(Checksum, EveryBitOfASmallBlockCounts) {
  std::vector<std::byte> bytes = noise(300, 11);
  const std::uint64_t before = checksum(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1u << (bit % 8));
    bytes[bit / 8] ^= mask;
    EXPECT_NE(checksum(bytes), before) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace headrace
