#include "runtime/checkpoint_folder.h"

#include <sys/stat.h>

#include "runtime/checkpoint_tools.h"
#include "tests/support/temporary_folder.h"
#include "tests/runtime/saved_checkpoint.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Platform> posix_platform() {
  PlatformOptions options;
  options.io = IoBackend::posix;
  return Platform::open(options).value();
}

// On the machine's own file systems.
class CheckpointFolder : public testing::Test {
 protected:
  Status save_number(std::uint64_t number) {
    return save(*platform_, *queue_, folder_, small_checkpoint(number));
  }
  std::optional<std::uint64_t> number() { return number_of(*platform_, *queue_, folder_); }
  Status read_status(const fs::path& folder) {
    return CheckpointReader::open(*platform_, *queue_, folder).status();
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat facts {};
    EXPECT_EQ(::lstat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 07777;
  }

  const TemporaryFolder temporary_;
  const std::unique_ptr<Platform> platform_ = posix_platform();
  IoQueue* const queue_ = platform_->queue_for(temporary_.path()).value();
  fs::path folder_ = temporary_.path() / "ckpt";
};

TEST_F(CheckpointFolder, GoesThereAndBackAndIsPrivate) {
  for (std::uint64_t number = 1; number <= 3; ++number) {
    ASSERT_TRUE(save_number(number).ok());
    EXPECT_EQ(this->number(), number);
    const CheckReport report = check_checkpoint(folder_).value();
    EXPECT_TRUE(report.whole());
    EXPECT_EQ(report.generation, number);
  }
  EXPECT_EQ(mode_of(folder_), 0700u);
  EXPECT_EQ(mode_of(folder_ / kManifestName), 0600u);
  EXPECT_EQ(mode_of(folder_ / data_name(3)), 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);  // with the next save's space
  EXPECT_EQ(std::distance(fs::directory_iterator(temporary_.path()), {}), 1);
}

TEST_F(CheckpointFolder, ASlashAtTheEndChangesNothing) {
  folder_ += "/";
  ASSERT_TRUE(save_number(1).ok());
  EXPECT_EQ(number(), 1u);
  EXPECT_TRUE(fs::exists(temporary_.path() / "ckpt" / kManifestName));
}

TEST_F(CheckpointFolder, ALinkIsRefused) {
  ASSERT_TRUE(save_number(1).ok());
  const fs::path link = temporary_.path() / "link";
  fs::create_directory_symlink(folder_, link);
  EXPECT_EQ(read_status(link).code(), Code::invalid);
  EXPECT_EQ(read_status(link / "").code(), Code::invalid);
  EXPECT_EQ(check_checkpoint(link / "").status().code(), Code::invalid);
  EXPECT_EQ(save(*platform_, *queue_, link, small_checkpoint(2)).code(), Code::invalid);
  EXPECT_EQ(number(), 1u);
}

TEST_F(CheckpointFolder, LinksInsideAreNotFollowed) {
  ASSERT_TRUE(save_number(1).ok());
  fs::rename(folder_ / kManifestName, temporary_.path() / "elsewhere");
  fs::create_symlink(temporary_.path() / "elsewhere", folder_ / kManifestName);
  EXPECT_EQ(read_status(folder_).code(), Code::invalid);
  EXPECT_EQ(save_number(2).code(), Code::invalid);
}

TEST_F(CheckpointFolder, ALinkInTheWayOfTheNextSaveIsRemovedAndNotFollowed) {
  ASSERT_TRUE(save_number(1).ok());
  write_bytes(temporary_.path() / "precious", {});
  fs::create_symlink(temporary_.path() / "precious", folder_ / "manifest.new");
  fs::create_symlink(temporary_.path() / "precious", folder_ / data_name(2));
  ASSERT_TRUE(save_number(2).ok());
  EXPECT_EQ(number(), 2u);
  EXPECT_TRUE(fs::is_regular_file(folder_ / data_name(2)));
  EXPECT_EQ(fs::file_size(temporary_.path() / "precious"), 0u);
}

TEST_F(CheckpointFolder, ACopyByHardLinksStaysWhole) {
  const fs::path copy = temporary_.path() / "copy";
  fs::create_directory(copy);
  ASSERT_TRUE(save_number(1).ok());
  for (const auto& file : fs::directory_iterator(folder_))
    fs::create_hard_link(file.path(), copy / file.path().filename());
  for (const std::uint64_t number : {2, 3, 4}) {
    ASSERT_TRUE(save_number(number).ok());
    EXPECT_EQ(number_of(*platform_, *queue_, copy), 1u);
    EXPECT_EQ(this->number(), number);
  }
}

TEST_F(CheckpointFolder, ACheckpointThatIsBeingCheckedIsNotWrittenOver) {
  ASSERT_TRUE(save_number(1).ok());
  std::uint64_t next = 2;
  CheckOptions options;
  options.threads = 1;
  options.progress = [&](std::uint64_t, std::uint64_t) {
    EXPECT_TRUE(save_number(next).ok()) << next;
    ++next;
  };
  const CheckReport report = check_checkpoint(folder_, options).value();
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(report.generation, 1u);
  EXPECT_GT(next, 3u);
}

TEST_F(CheckpointFolder, WhatIsNoCheckpointIsNeverTouched) {
  fs::create_directory(folder_);
  write_bytes(folder_ / "thesis.txt", std::vector<std::byte>(10));
  EXPECT_EQ(save_number(1).code(), Code::invalid);
  EXPECT_EQ(read_status(folder_).code(), Code::invalid);
  EXPECT_TRUE(fs::exists(folder_ / "thesis.txt"));
  fs::rename(folder_, temporary_.path() / ".ckpt.saving");
  EXPECT_EQ(save_number(1).code(), Code::io);
  EXPECT_TRUE(fs::exists(temporary_.path() / ".ckpt.saving" / "thesis.txt"));
}

// The first save is made aside, the later ones in place: neither lets another one in.
TEST_F(CheckpointFolder, ASecondSaveMeanwhileIsRefusedAndHarmsNothing) {
  const auto save_with_another = [this](const SampleCheckpoint& sample) -> Status {
    HEADRACE_ASSIGN(CheckpointWriter writer,
                    CheckpointWriter::create(*platform_, *queue_, folder_, sample.manifest));
    const Status refused = save_number(7);
    EXPECT_EQ(refused.code(), Code::locked) << refused.to_string();
    for (const char* word : {"ckpt", "this process", "wait for it"})
      EXPECT_NE(refused.message().find(word), std::string_view::npos) << refused.to_string();
    HEADRACE_TRY(write_runs(*platform_, *queue_, writer.data(), sample));
    return writer.commit(sample.manifest);
  };
  for (std::uint64_t number = 1; number <= 2; ++number) {
    const Status how = save_with_another(small_checkpoint(number));
    ASSERT_TRUE(how.ok()) << how.to_string();
    EXPECT_EQ(this->number(), number);
  }
  EXPECT_TRUE(save_number(3).ok());
}

TEST_F(CheckpointFolder, OtherFilesInACheckpointStay) {
  ASSERT_TRUE(save_number(1).ok());
  write_bytes(folder_ / "notes.txt", std::vector<std::byte>(10));
  ASSERT_TRUE(save_number(2).ok());
  EXPECT_TRUE(fs::exists(folder_ / "notes.txt"));
  EXPECT_EQ(number(), 2u);
}

TEST_F(CheckpointFolder, AnEmptyFolderIsTaken) {
  fs::create_directory(folder_);
  ASSERT_TRUE(save_number(1).ok());
  EXPECT_EQ(number(), 1u);
}

TEST_F(CheckpointFolder, APlaceThatCannotBeWrittenIsAnErrorThatNamesIt) {
  folder_ = temporary_.path() / "missing" / "ckpt";
  Status how = save_number(1);
  EXPECT_EQ(how.code(), Code::io);
  EXPECT_NE(how.message().find("missing"), std::string_view::npos) << how.to_string();
  write_bytes(temporary_.path() / "file", {});
  folder_ = temporary_.path() / "file" / "ckpt";
  EXPECT_EQ(save_number(1).code(), Code::io);
  folder_ = "/proc/ckpt";  // no one makes folders there
  EXPECT_FALSE(save_number(1).ok());
  for (const char* nameless : {"", "/", ".", ".."}) {
    folder_ = nameless;
    EXPECT_EQ(save_number(1).code(), Code::invalid) << nameless;
  }
}

TEST_F(CheckpointFolder, ADamagedManifestIsNeitherReadNorReplaced) {
  ASSERT_TRUE(save_number(1).ok());
  flip_byte(folder_ / kManifestName, 80);
  EXPECT_EQ(read_status(folder_).code(), Code::corrupt);
  EXPECT_EQ(save_number(2).code(), Code::corrupt);
  EXPECT_TRUE(fs::exists(folder_ / data_name(1)));
}

TEST_F(CheckpointFolder, DataOfAnotherSizeOrNoneIsCorrupt) {
  ASSERT_TRUE(save_number(1).ok());
  fs::resize_file(folder_ / data_name(1), 4095);
  EXPECT_EQ(read_status(folder_).code(), Code::corrupt);
  fs::remove(folder_ / data_name(1));
  EXPECT_EQ(read_status(folder_).code(), Code::corrupt);
  EXPECT_EQ(read_status(temporary_.path() / "missing").code(), Code::invalid);
}

}  // namespace
}  // namespace headrace
