#include "runtime/checkpoint_tools.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/temporary_folder.h"
#include "tests/runtime/checkpoint_files.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

class CheckCheckpoint : public testing::Test {
 protected:
  CheckCheckpoint() { write_checkpoint(folder_, sample_); }
  Status status() const { return check_checkpoint(folder_, {}).status(); }
  void expect_refused(Code code, std::string_view part) const {
    const Status how = status();
    EXPECT_EQ(how.code(), code) << how.to_string();
    EXPECT_NE(how.message().find(part), std::string_view::npos) << how.to_string();
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path() / "checkpoint";
  const SampleCheckpoint sample_ = sample_checkpoint(5);
  const fs::path data_ = folder_ / data_name(1);
  const fs::path manifest_ = folder_ / kManifestName;
};

TEST_F(CheckCheckpoint, AWholeOneIsWhole) {
  const Result<CheckReport> report = check_checkpoint(folder_, {});
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_TRUE(report->whole());
  EXPECT_EQ(report->generation, 1u);
  EXPECT_EQ(report->tensors, 4u);
  EXPECT_EQ(report->parameters, kBlockElements + 77 + 5 + kBlockElements + 1);
  EXPECT_EQ(report->blocks, 2u * 3 + 3 + 2);
  EXPECT_EQ(report->bytes, 4 * (3 * (kBlockElements + 77) + 3 * 5 + kBlockElements + 1));
  EXPECT_TRUE(report->bad.empty());
}

TEST_F(CheckCheckpoint, AFlippedByteInAnyBlockIsFoundAndNamed) {
  for (const CheckpointTensor& tensor : sample_.manifest.tensors) {
    for (std::size_t kind = 0; kind < tensor.kinds(); ++kind) {
      for (std::uint64_t block = 0; block < tensor.blocks(); ++block) {
        const std::uint64_t begin = block * kBlockElements;
        const std::uint64_t end = std::min(begin + kBlockElements, tensor.count);
        const std::uint64_t offset = tensor.offsets[kind] + end * 4 - 1;
        flip_byte(data_, offset);
        const Result<CheckReport> report = check_checkpoint(folder_, {});
        flip_byte(data_, offset);
        ASSERT_TRUE(report.ok()) << report.status().to_string();
        ASSERT_EQ(report->bad.size(), 1u);
        EXPECT_EQ(report->bad[0].tensor, tensor.name);
        EXPECT_EQ(report->bad[0].kind, static_cast<Kind>(kind));
        EXPECT_EQ(report->bad[0].begin, begin);
        EXPECT_EQ(report->bad[0].end, end);
        EXPECT_EQ(report->bad[0].file_offset, tensor.offsets[kind] + begin * 4);
      }
    }
  }
}

TEST_F(CheckCheckpoint, BadBlocksComeInFileOrderAndAreOnlyCountedPastTheList) {
  for (const CheckpointTensor& tensor : sample_.manifest.tensors)
    for (std::size_t kind = 0; kind < tensor.kinds() && tensor.count > 0; ++kind)
      flip_byte(data_, tensor.offsets[kind]);
  const CheckReport report = check_checkpoint(folder_, {.listed_blocks = 2}).value();
  EXPECT_EQ(report.bad_blocks, 7u);
  EXPECT_FALSE(report.whole());
  ASSERT_EQ(report.bad.size(), 2u);
  EXPECT_EQ(report.bad[0].file_offset, 0u);
  EXPECT_EQ(report.bad[1].kind, Kind::exp_avg);
}

TEST_F(CheckCheckpoint, AnyNumberOfThreadsGivesTheSame) {
  flip_byte(data_, kBlockElements * 4 + 1);
  for (const int threads : {1, 2, 3, 8}) {
    const CheckReport report = check_checkpoint(folder_, {.threads = threads}).value();
    EXPECT_EQ(report.blocks, 11u) << threads;
    ASSERT_EQ(report.bad_blocks, 1u) << threads;
    EXPECT_EQ(report.bad[0].begin, kBlockElements) << threads;
  }
  EXPECT_EQ(check_checkpoint(folder_, {.threads = -1}).status().code(), Code::invalid);
  EXPECT_EQ(check_checkpoint(folder_, {.threads = 1'000'000}).status().code(), Code::invalid);
}

TEST_F(CheckCheckpoint, ProgressGrowsToTheEnd) {
  std::uint64_t last = 0, total = 0, calls = 0;
  CheckOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
    ++calls;
  };
  const CheckReport report = check_checkpoint(folder_, options).value();
  EXPECT_EQ(calls, report.blocks);
  EXPECT_EQ(last, report.bytes);
  EXPECT_EQ(total, report.bytes);
}

TEST_F(CheckCheckpoint, ATruncatedDataFileIsCorrupt) {
  fs::resize_file(data_, sample_.data.size() - 1);
  expect_refused(Code::corrupt, "the manifest says");
  fs::resize_file(data_, sample_.data.size() + 1);
  expect_refused(Code::corrupt, "the manifest says");
}

TEST_F(CheckCheckpoint, AMissingDataFileIsCorrupt) {
  fs::remove(data_);
  expect_refused(Code::corrupt, data_name(1) + " is missing");
}

TEST_F(CheckCheckpoint, ADamagedManifestIsCorrupt) {
  flip_byte(manifest_, 70);
  expect_refused(Code::corrupt, "body_checksum");
  fs::resize_file(manifest_, 63);
  expect_refused(Code::corrupt, "63 bytes");
  fs::resize_file(manifest_, kMaxManifestFileBytes + 1);  // sparse: nothing of it is read
  expect_refused(Code::corrupt, "at most");
}

TEST_F(CheckCheckpoint, WhatIsNoCheckpointIsInvalid) {
  fs::remove(manifest_);
  expect_refused(Code::invalid, "has no manifest");
  EXPECT_EQ(check_checkpoint(temporary_.path() / "missing", {}).status().code(), Code::invalid);
  EXPECT_EQ(check_checkpoint(data_, {}).status().code(), Code::invalid);
}

TEST_F(CheckCheckpoint, LinksAreNotFollowed) {
  const fs::path link = temporary_.path() / "link";
  fs::create_directory_symlink(folder_, link);
  EXPECT_EQ(check_checkpoint(link, {}).status().code(), Code::invalid);
  fs::rename(data_, temporary_.path() / "elsewhere");
  fs::create_symlink(temporary_.path() / "elsewhere", data_);
  expect_refused(Code::invalid, "link");
  fs::rename(manifest_, temporary_.path() / "manifest");
  fs::create_symlink(temporary_.path() / "manifest", manifest_);
  expect_refused(Code::invalid, "link");
}

TEST_F(CheckCheckpoint, AFifoDoesNotHoldItUp) {
  fs::remove(data_);
  ASSERT_EQ(::mkfifo(data_.c_str(), 0600), 0);
  expect_refused(Code::invalid, "not a regular file");
}

// 128 MiB of data, sparse; the peak of memory must not follow.
TEST_F(CheckCheckpoint, MemoryIsBoundedWhateverTheSize) {
  SampleCheckpoint large;
  large.manifest = plan_manifest({tensor_of("w", 128 * kBlockElements, false)}, {}).value();
  const std::vector<std::byte> zeros(kBlockElements * 4);
  for (std::uint64_t& sum : large.manifest.tensors[0].sums(Kind::master)) sum = checksum(zeros);
  const fs::path folder = temporary_.path() / "large";
  write_checkpoint(folder, large);
  fs::resize_file(folder / data_name(1), large.manifest.data_bytes);
  struct rusage before {
  }, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const Result<CheckReport> report = check_checkpoint(folder, {.threads = 2});
  ::getrusage(RUSAGE_SELF, &after);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_TRUE(report->whole());
  EXPECT_EQ(report->blocks, 128u);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 * 1024);  // KiB
}

}  // namespace
}  // namespace headrace
