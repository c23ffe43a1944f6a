#include "examples/train_gpt/text.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using headrace::TemporaryFolder;

std::string whole(const Text& text) {
  std::string all(text.training().begin(), text.training().end());
  return all.append(text.held_out().begin(), text.held_out().end());
}

std::string read_or_why(const fs::path& path) {
  const auto text = Text::read(path);
  return text.ok() ? whole(*text) : text.status().to_string();
}

TEST(TextTest, AFolderIsReadInByteOrderOfPaths) {
  const TemporaryFolder folder;
  folder.write("b/x.txt", "3");
  folder.write("b-x.txt", "2");  // '-' comes before '/'
  folder.write("a.txt", "1");
  folder.write("b0.txt", "4");
  folder.write("B.txt", "0");
  folder.write("\xC3\xA9.txt", "6");
  folder.write("z.txt", "5");
  EXPECT_EQ(read_or_why(folder.path()), "0123456");
}

TEST(TextTest, HiddenFoldersBuildAndLinksAreLeftOut) {
  const TemporaryFolder folder, elsewhere;
  folder.write(".git/config", "hidden");
  folder.write("build/out.txt", "built");
  folder.write("src/build/out.txt", "built");
  folder.write("src/.cache/out.txt", "hidden");
  folder.write("src/builder/kept.txt", "a");
  folder.write(".gitignore", "_");  // a hidden file is no hidden folder
  folder.write("build.txt", "b");
  elsewhere.write("far/away.txt", "linked");
  fs::create_symlink(elsewhere.path() / "far", folder.path() / "far");
  fs::create_symlink(elsewhere.path() / "far/away.txt", folder.path() / "near.txt");
  EXPECT_EQ(read_or_why(folder.path()), "_ba");
}

TEST(TextTest, FilesThatAreNotUtf8AreLeftOut) {
  const TemporaryFolder folder;
  folder.write("a", "\xC3\xA9");
  folder.write("b", "latin \xE9");
  folder.write("c", "cut \xE2\x82");
  folder.write("d", "\xF0\x9F\x98\x80");
  EXPECT_EQ(read_or_why(folder.path()), "\xC3\xA9\xF0\x9F\x98\x80");
}

TEST(TextTest, ACharacterMayLieAcrossTwoPieces) {
  const TemporaryFolder folder;
  const std::string piece((std::size_t{1} << 20U) - 1, 'x');
  folder.write("a", piece + "\xE2\x82\xAC");
  EXPECT_EQ(read_or_why(folder.path()), piece + "\xE2\x82\xAC");
  folder.write("a", piece + "\xE2\x82");
  EXPECT_NE(read_or_why(folder.path()).find("holds no text"), std::string::npos);
}

TEST(TextTest, AFileIsTakenAsItIs) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("x", "bytes \xFF");
  EXPECT_EQ(read_or_why(file), "bytes \xFF");
}

TEST(TextTest, WhatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  const fs::path missing = folder.path() / "missing.txt";
  EXPECT_EQ(read_or_why(missing),
            "invalid: --data " + missing.string() + ": there is no such file or folder");
  const fs::path empty = folder.write("empty", "");
  EXPECT_EQ(read_or_why(empty), "invalid: --data " + empty.string() + ": the file is empty");
  EXPECT_NE(read_or_why(folder.path()).find("holds no text"), std::string::npos);
  EXPECT_NE(read_or_why("/dev/null").find("neither a regular file nor a folder"),
            std::string::npos);
}

TEST(TextTest, TheLastTenthIsHeldOut) {
  const Text text({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20});
  EXPECT_EQ(text.training().size(), 19U);
  ASSERT_EQ(text.held_out().size(), 2U);
  EXPECT_EQ(text.held_out()[0], 19);
}

TEST(TextTest, TooShortATextSaysHowMuchIsNeeded) {
  EXPECT_TRUE(Text(std::vector<std::uint8_t>(90)).long_enough(8).ok());
  const auto status = Text(std::vector<std::uint8_t>(89)).long_enough(8);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.to_string().find("at least 90 bytes"), std::string::npos);
  EXPECT_NE(status.to_string().find("89 bytes"), std::string::npos);
}

TEST(TextTest, TheFingerprintSeesEveryByteAndTheirOrder) {
  const auto print = [](std::vector<std::uint8_t> bytes) {
    return Text(std::move(bytes)).fingerprint();
  };
  EXPECT_EQ(print({1, 2, 3}), print({1, 2, 3}));
  EXPECT_NE(print({1, 2, 3}), print({1, 3, 2}));
  EXPECT_NE(print({1, 2, 3}), print({1, 2, 3, 0}));
}

std::vector<std::uint8_t> counting(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return bytes;
}

constexpr ModelShape kShape{.layers = 1, .context = 8, .batch = 3};

TEST(TextTest, TargetsAreTheBytesThatFollow) {
  const auto bytes = counting(200);
  const Batch batch = random_batch(bytes, kShape, {.seed = 3, .step = 1});
  ASSERT_EQ(batch.tokens.size(), kShape.rows());
  ASSERT_EQ(batch.targets.size(), kShape.rows());
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
    if (i % kShape.context != 0) {
      EXPECT_EQ(batch.tokens[i], batch.tokens[i - 1] + 1);
    }
  }
}

TEST(TextTest, ABatchDependsOnSeedStepAndMicroBatchAlone) {
  const auto bytes = counting(200);
  const auto tokens = [&](std::uint64_t seed, std::uint64_t step, std::uint64_t micro) {
    return random_batch(bytes, kShape, {seed, step, micro}).tokens;
  };
  EXPECT_EQ(tokens(1, 5, 0), tokens(1, 5, 0));
  EXPECT_NE(tokens(1, 5, 0), tokens(2, 5, 0));
  EXPECT_NE(tokens(1, 5, 0), tokens(1, 6, 0));
  EXPECT_NE(tokens(1, 5, 0), tokens(1, 5, 1));
}

TEST(TextTest, TheShortestTextStillGivesBatches) {
  const auto bytes = counting(kShape.context + 1);
  EXPECT_EQ(random_batch(bytes, kShape, {}).tokens[0], 0);
  EXPECT_EQ(even_batch(bytes, kShape, 1, 2).targets.back(), 8);
}

TEST(TextTest, EvenBatchesReachFromTheFirstByteToTheLast) {
  const auto bytes = counting(100);
  EXPECT_EQ(even_batch(bytes, kShape, 0, 4).tokens.front(), 0);
  EXPECT_EQ(even_batch(bytes, kShape, 3, 4).targets.back(), 99);
}

}  // namespace
}  // namespace train_gpt
