#include "examples/train_gpt/safetensors.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using headrace::Code;
using headrace::Result;
using headrace::Status;
using headrace::TemporaryFolder;

const std::vector<float> kMatrix{1, 2, 3, 4, 5, 6};
const std::vector<float> kVector{7};

Result<std::span<const std::byte>> content(std::size_t index) {
  return std::as_bytes(std::span(index == 0 ? kMatrix : kVector));
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<ExportedTensor> kTensors{{"a.weight", "F32", {2, 3}, 24},
                                           {"a.bias", "F32", {1}, 4}};

TEST(SafetensorsTest, TheLayoutIsLengthHeaderTensors) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "model.safetensors";
  ASSERT_TRUE(write_safetensors(path, kTensors, content).ok());
  const std::string file = read(path);
  std::uint64_t length = 0;
  ASSERT_GT(file.size(), sizeof(length));
  std::memcpy(&length, file.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0U);
  ASSERT_EQ(file.size(), 8 + length + 28);
  const std::string header = file.substr(8, length);
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            R"({"__metadata__":{"format":"pt"},)"
            R"("a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
            R"("a.bias":{"dtype":"F32","shape":[1],"data_offsets":[24,28]}})");
  EXPECT_EQ(std::memcmp(file.data() + 8 + length, kMatrix.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file.data() + 8 + length + 24, kVector.data(), 4), 0);
}

TEST(SafetensorsTest, AFailureLeavesTheOldFileAndNoOther) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("model.safetensors", "old");
  const auto broken = [](std::size_t index) -> Result<std::span<const std::byte>> {
    if (index == 1) return Status(Code::poisoned, "no more");
    return content(index);
  };
  EXPECT_EQ(write_safetensors(path, kTensors, broken).code(), Code::poisoned);
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(SafetensorsTest, AWrongSizeAndAMissingFolderAreErrors) {
  const TemporaryFolder folder;
  auto tensors = kTensors;
  tensors[1].bytes = 8;
  EXPECT_EQ(write_safetensors(folder.path() / "x", tensors, content).code(), Code::invalid);
  EXPECT_EQ(write_safetensors(folder.path() / "no/x", kTensors, content).code(), Code::io);
}

}  // namespace
}  // namespace train_gpt
