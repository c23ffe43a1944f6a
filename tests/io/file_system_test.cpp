#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>

#include "io/io_engine.h"
#include "tests/io/refused_calls.h"
#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

class FileSystem : public testing::Test {
 protected:
  FileSpec scratch(std::uint64_t size) const { return {.path = folder_.path(), .size = size}; }
  FileSpec create(const char* name, std::uint64_t size) const {
    return {.path = folder_.path() / name, .mode = FileMode::create, .size = size};
  }
  FileSpec read_only(const char* name) const {
    return {.path = folder_.path() / name, .mode = FileMode::read_only};
  }
  void write_text(const char* name, const char* text) const {
    std::ofstream(folder_.path() / name) << text;
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<IoEngine> engine_ = posix_engine();
};

struct stat facts_of(const OpenFile& file) {
  struct stat facts {};
  EXPECT_EQ(::fstat(file.handle, &facts), 0);
  return facts;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A file system mounted on a test's own folder; needs root.
class Mount {
 public:
  Mount(const fs::path& on, const char* type, const char* options)
      : on_(on), mounted_(::mount("headrace-test", on.c_str(), type, 0, options) == 0) {}
  ~Mount() {
    if (mounted_) ::umount2(on_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  const fs::path on_;
  const bool mounted_;
};

TEST_F(FileSystem, ScratchFileHasNoNameAndAllItsSpace) {
  const Result<OpenFile> file = engine_->open_file(scratch(3 * kMiB));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_TRUE(folder_.empty());
  const struct stat facts = facts_of(*file);
  EXPECT_EQ(facts.st_nlink, 0u);
  EXPECT_EQ(facts.st_size, static_cast<off_t>(3 * kMiB));
  EXPECT_GE(facts.st_blocks * 512, static_cast<off_t>(3 * kMiB));
  EXPECT_EQ(facts.st_mode & 07777u, 0600u);
  EXPECT_EQ(file->size, 3 * kMiB);
  engine_->close_file(*file);
}

TEST_F(FileSystem, FilesAreClosedOnExec) {
  const Result<OpenFile> file = engine_->open_file(scratch(0));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_TRUE(::fcntl(file->handle, F_GETFD) & FD_CLOEXEC);
  engine_->close_file(*file);
}

TEST_F(FileSystem, SizesAre64Bits) {
  const std::uint64_t size = 5 * kGiB + 4096;
  if (*engine_->free_bytes(folder_.path()) < size + kGiB) GTEST_SKIP() << "needs 6 GiB of disk";
  const Result<OpenFile> file = engine_->open_file(scratch(size));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->size, size);
  EXPECT_EQ(facts_of(*file).st_size, static_cast<off_t>(size));
  engine_->close_file(*file);
}

TEST_F(FileSystem, CreatedFileIsPrivateAndMustBeNew) {
  const Result<OpenFile> file = engine_->open_file(create("new", kMiB));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(facts_of(*file).st_mode & 07777u, 0600u);
  EXPECT_GE(facts_of(*file).st_blocks * 512, static_cast<off_t>(kMiB));
  EXPECT_TRUE(contains(file->name, "/new"));
  engine_->close_file(*file);

  const Status again = engine_->open_file(create("new", 0)).status();
  EXPECT_EQ(again.code(), Code::io);
  EXPECT_TRUE(contains(again.message(), "/new") && contains(again.message(), "EEXIST"))
      << again.message();
}

TEST_F(FileSystem, CreateDoesNotFollowALink) {
  fs::create_symlink(folder_.path() / "target", folder_.path() / "link");
  EXPECT_FALSE(engine_->open_file(create("link", 0)).ok());
  EXPECT_FALSE(fs::exists(folder_.path() / "target"));
}

TEST_F(FileSystem, ReadOnlyTakesRegularFilesOnly) {
  write_text("text", "abc");
  const Result<OpenFile> file = engine_->open_file(read_only("text"));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->size, 3u);
  EXPECT_EQ(::fcntl(file->handle, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_RDONLY);
  engine_->close_file(*file);

  fs::create_symlink(folder_.path() / "text", folder_.path() / "link");
  ASSERT_EQ(::mkfifo((folder_.path() / "fifo").c_str(), 0600), 0);
  fs::create_directory(folder_.path() / "folder");
  EXPECT_EQ(engine_->open_file(read_only("link")).status().code(), Code::invalid);
  EXPECT_EQ(engine_->open_file(read_only("fifo")).status().code(), Code::invalid);
  EXPECT_EQ(engine_->open_file(read_only("folder")).status().code(), Code::invalid);
  EXPECT_EQ(engine_->open_file(read_only("absent")).status().code(), Code::io);
}

TEST_F(FileSystem, OverwriteTakesAWholeFileOfThatSizeThatNobodyElseHas) {
  const auto name = [this](FileMode mode, std::uint64_t size) {
    return FileSpec{.path = folder_.path() / "spare", .mode = mode, .size = size};
  };
  const FileSpec overwrite = name(FileMode::overwrite, kMiB);
  EXPECT_EQ(engine_->open_file(overwrite).status().code(), Code::io);  // nothing is there
  const OpenFile made = engine_->open_file(create("spare", kMiB)).value();
  EXPECT_EQ(engine_->open_file(overwrite).status().code(), Code::locked);
  EXPECT_EQ(engine_->open_file(name(FileMode::shared, 0)).status().code(), Code::locked);
  engine_->close_file(made);

  const OpenFile reader = engine_->open_file(name(FileMode::shared, 0)).value();
  engine_->close_file(engine_->open_file(name(FileMode::shared, 0)).value());
  EXPECT_EQ(engine_->open_file(overwrite).status().code(), Code::locked);
  engine_->close_file(reader);

  EXPECT_EQ(engine_->open_file(name(FileMode::overwrite, kMiB + 1)).status().code(),
            Code::unavailable);
  fs::create_hard_link(folder_.path() / "spare", folder_.path() / "snapshot");
  EXPECT_EQ(engine_->open_file(overwrite).status().code(), Code::unavailable);
  fs::remove(folder_.path() / "snapshot");
  const Result<OpenFile> whole = engine_->open_file(overwrite);
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  EXPECT_TRUE(whole->existed);
  EXPECT_EQ(whole->size, kMiB);
  engine_->close_file(*whole);

  ASSERT_EQ(::truncate((folder_.path() / "spare").c_str(), 0), 0);
  ASSERT_EQ(::truncate((folder_.path() / "spare").c_str(), kMiB), 0);  // a hole now
  EXPECT_EQ(engine_->open_file(overwrite).status().code(), Code::unavailable);
}

TEST_F(FileSystem, ScratchNeedsAFolderThatIsNotALink) {
  fs::create_directory(folder_.path() / "real");
  fs::create_directory_symlink(folder_.path() / "real", folder_.path() / "link");
  for (const char* name : {"link", "absent"}) {
    const Status how = engine_->open_file({.path = folder_.path() / name}).status();
    EXPECT_EQ(how.code(), Code::io);
    EXPECT_TRUE(contains(how.message(), name)) << how.message();
  }
}

TEST_F(FileSystem, DirectIsWhatTheFileSystemSays) {
  struct statx facts {};
  ASSERT_EQ(::statx(AT_FDCWD, folder_.path().c_str(), 0, STATX_BASIC_STATS, &facts), 0);
  Result<OpenFile> file = engine_->open_file(scratch(kMiB));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ(::statx(file->handle, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts), 0);
  const bool possible = (facts.stx_mask & STATX_DIOALIGN) && facts.stx_dio_offset_align != 0;
  EXPECT_EQ(file->direct, possible);
  EXPECT_EQ(file->direct, (::fcntl(file->handle, F_GETFL) & O_DIRECT) != 0);
  EXPECT_EQ(file->alignment % (possible ? 4096 : 1), 0u);
  engine_->close_file(*file);

  FileSpec buffered = scratch(kMiB);
  buffered.direct = false;
  file = engine_->open_file(buffered);
  EXPECT_FALSE(file->direct);
  EXPECT_EQ(file->alignment, 1u);
  EXPECT_EQ(::fcntl(file->handle, F_GETFL) & O_DIRECT, 0);
  engine_->close_file(*file);
}

TEST_F(FileSystem, AlignmentCanBeRaised) {
  for (const bool direct : {false, true}) {
    FileSpec spec = scratch(kMiB);
    spec.alignment = 65536;
    spec.direct = direct;
    const Result<OpenFile> file = engine_->open_file(spec);
    EXPECT_EQ(file->alignment, 65536u);
    engine_->close_file(*file);
  }
}

TEST_F(FileSystem, MemoryIsNotDirect) {
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  const TemporaryFolder memory("/dev/shm");
  const Result<OpenFile> file = engine_->open_file({.path = memory.path(), .size = kMiB});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_FALSE(file->direct);
  EXPECT_EQ(file->alignment, 1u);
  engine_->close_file(*file);
}

TEST_F(FileSystem, MoreThanThereIsIsRefusedWithBothSizes) {
  const std::uint64_t free = *engine_->free_bytes(folder_.path());
  for (const FileSpec& spec : {scratch(free + kGiB), create("big", free + kGiB)}) {
    const Status how = engine_->open_file(spec).status();
    EXPECT_EQ(how.code(), Code::out_of_space);
    EXPECT_TRUE(contains(how.message(), folder_.path().string())) << how.message();
    EXPECT_TRUE(contains(how.message(), format_bytes(free + kGiB))) << how.message();
    EXPECT_TRUE(contains(how.message(), "free some space")) << how.message();
  }
  EXPECT_TRUE(folder_.empty());
  const Status how = engine_->open_file(scratch(~std::uint64_t{0})).status();
  EXPECT_EQ(how.code(), Code::invalid);
}

TEST_F(FileSystem, FullDiskIsAnErrorWhenOpeningAndKeepsNothing) {
  const Mount disk(folder_.path(), "tmpfs", "size=1m");
  if (!disk.mounted()) GTEST_SKIP() << "mounting needs root";
  const Result<OpenFile> half = engine_->open_file(scratch(512 * kKiB));
  ASSERT_TRUE(half.ok()) << half.status().to_string();
  EXPECT_EQ(engine_->open_file(scratch(768 * kKiB)).status().code(), Code::out_of_space);
  const Result<OpenFile> rest = engine_->open_file(scratch(512 * kKiB));
  EXPECT_TRUE(rest.ok()) << rest.status().to_string();
  engine_->close_file(*half);
  engine_->close_file(*rest);
  EXPECT_EQ(*engine_->free_bytes(folder_.path()), kMiB);
}

// fallocate itself fails, though there seemed to be room: a quota, or somebody who was faster.
TEST_F(FileSystem, RefusedReservationSaysWhyAndLeavesNothing) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    const std::string said = in_child({{.call = SYS_fallocate, .error = error}}, [&] {
      return engine_->open_file(create("new", kMiB)).status().to_string();
    });
    EXPECT_TRUE(contains(said, "out_of_space")) << said;
    EXPECT_TRUE(contains(said, strerrorname_np(error))) << said;
    EXPECT_TRUE(folder_.empty());
  }
}

TEST_F(FileSystem, WithoutFallocateScratchIsRefusedAndANewFileIsNot) {
  const std::vector<Refusal> refused{{.call = SYS_fallocate, .error = EOPNOTSUPP}};
  const std::string scratch_said =
      in_child(refused, [&] { return engine_->open_file(scratch(kMiB)).status().to_string(); });
  EXPECT_TRUE(contains(scratch_said, "unavailable") && contains(scratch_said, "reserve space"))
      << scratch_said;
  const std::string said = in_child(refused, [&] {
    const Result<OpenFile> file = engine_->open_file(create("new", kMiB));
    return fmt::format("{} {}", file.status().to_string(), facts_of(*file).st_size);
  });
  EXPECT_EQ(said, "ok 1048576");
}

TEST_F(FileSystem, WithoutUnnamedFilesTheNameIsGoneAtOnce) {
  for (const int error : {EOPNOTSUPP, EISDIR}) {
    const Refusal refused{.call = SYS_openat, .error = error, .argument = 2, .bits = O_TMPFILE};
    const std::string said = in_child({refused}, [&] {
      const Result<OpenFile> file = engine_->open_file(scratch(kMiB));
      if (!file.ok()) return file.status().to_string();
      const struct stat facts = facts_of(*file);
      return fmt::format("{} {:o} {} {}", facts.st_nlink, facts.st_mode & 07777u, facts.st_size,
                         folder_.empty());
    });
    EXPECT_EQ(said, "0 600 1048576 true");
    EXPECT_TRUE(folder_.empty());
  }
}

TEST_F(FileSystem, FoldersArePrivate) {
  const fs::path folder = folder_.path() / "checkpoint";
  ASSERT_TRUE(engine_->make_folder(folder).ok());
  struct stat facts {};
  ASSERT_EQ(::stat(folder.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777u, 0700u);
  EXPECT_EQ(engine_->make_folder(folder).code(), Code::io);
  EXPECT_TRUE(engine_->sync_folder(folder).ok());
}

TEST_F(FileSystem, RenameReplacesAndRemoveRemoves) {
  write_text("a", "new");
  write_text("b", "old one");
  fs::create_directory(folder_.path() / "empty");
  EXPECT_TRUE(engine_->rename(folder_.path() / "a", folder_.path() / "b").ok());
  EXPECT_EQ(fs::file_size(folder_.path() / "b"), 3u);
  EXPECT_EQ(engine_->remove(folder_.path()).code(), Code::io);
  EXPECT_TRUE(engine_->remove(folder_.path() / "b").ok());
  EXPECT_TRUE(engine_->remove(folder_.path() / "empty").ok());
  EXPECT_TRUE(folder_.empty());
}

TEST_F(FileSystem, LookSeesALinkAndNotWhatItPointsTo) {
  write_text("file", "x");
  fs::create_symlink(folder_.path(), folder_.path() / "link");
  EXPECT_EQ(engine_->look(folder_.path()).value(), Entry::folder);
  EXPECT_EQ(engine_->look(folder_.path() / "file").value(), Entry::file);
  EXPECT_EQ(engine_->look(folder_.path() / "link").value(), Entry::other);
  EXPECT_EQ(engine_->look(folder_.path() / "missing").value(), Entry::nothing);
  EXPECT_EQ(engine_->look(folder_.path() / "file" / "below").status().code(), Code::io);
}

TEST_F(FileSystem, FolderCallsNameThePathAndTheNextStep) {
  const fs::path absent = folder_.path() / "absent";
  const std::vector<Status> failures{
      engine_->make_folder(absent / "x"), engine_->rename(absent, folder_.path() / "to"),
      engine_->sync_folder(absent), engine_->remove(absent), engine_->free_bytes(absent).status()};
  for (const Status& how : failures) {
    EXPECT_EQ(how.code(), Code::io);
    EXPECT_TRUE(contains(how.message(), "absent")) << how.message();
    EXPECT_TRUE(contains(how.message(), "ENOENT")) << how.message();
    EXPECT_TRUE(contains(how.message(), "check the path")) << how.message();
  }
}

}  // namespace
}  // namespace headrace
