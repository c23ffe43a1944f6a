// The machine's file systems: the default file and folder calls of an IoEngine.
//
// Files are 0600, close-on-exec, and never reached through a link; space is reserved when they are
// opened, so a full disk is an error then and not later.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "io/io_engine.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFileMode = 0600;
constexpr mode_t kFolderMode = 0700;
constexpr int kPrivate = O_CLOEXEC | O_NOFOLLOW;
// Transfers past the page cache keep to whole sectors of 4 KiB, also where the file system would
// take 512 bytes: most drives would have to read, change and rewrite.
constexpr std::uint32_t kSector = 4096;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

bool no_room(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

const char* next_step(int error) {
  switch (error) {
    case ENOENT:
      return "check the path, and create its folder first";
    case EEXIST:
      return "choose another name, or remove what is there";
    case ENOTDIR:
      return "it must be a folder, and not a link to one";
    case EISDIR:
      return "it must be a file";
    case ELOOP:
      return "links are not followed: give the path that it points to";
    case EACCES:
    case EPERM:
      return "check the permissions and the owner of the file and its folders";
    case EROFS:
      return "choose a folder on a file system that is not mounted read-only";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENOTEMPTY:
      return "remove what is in the folder first";
    case EXDEV:
      return "both must be on one file system";
    case EIO:
      return "look for the drive in the kernel's log (dmesg)";
    default:
      return no_room(error) ? "free some space, or choose another folder"
                            : "check the path and its file system";
  }
}

Code code_of(int error) {
  if (no_room(error)) return Code::out_of_space;
  return error == ELOOP ? Code::invalid : Code::io;
}

Status failure(int error, std::string_view action, const fs::path& path) {
  return Status(code_of(error),
                fmt::format("cannot {} {}: {} ({}): {}", action, path.string(),
                            strerrordesc_np(error), strerrorname_np(error), next_step(error)));
}

template <class Call>
auto retried(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

// A file without a name on a file system that has no O_TMPFILE: named for a moment.
int open_and_unlink(const fs::path& folder) {
  const Descriptor parent(
      retried([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | kPrivate); }));
  if (parent.get() < 0) return -1;
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string name = fmt::format(".headrace-{:08x}{:08x}", random(), random());
    const int file = retried([&] {
      return ::openat(parent.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | kPrivate, kFileMode);
    });
    if (file < 0 && errno == EEXIST) continue;
    if (file >= 0) ::unlinkat(parent.get(), name.c_str(), 0);
    return file;
  }
  return -1;
}

int open_unnamed(const fs::path& folder) {
  const int file = retried(
      [&] { return ::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | kPrivate, kFileMode); });
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  return open_and_unlink(folder);
}

int open_by_mode(const FileSpec& spec) {
  const char* path = spec.path.c_str();
  switch (spec.mode) {
    case FileMode::scratch:
      return open_unnamed(spec.path);
    case FileMode::create:
      return retried([&] { return ::open(path, O_RDWR | O_CREAT | O_EXCL | kPrivate, kFileMode); });
    case FileMode::exclusive:
      return retried(
          [&] { return ::open(path, O_RDWR | O_CREAT | O_NONBLOCK | kPrivate, kFileMode); });
    case FileMode::overwrite:
      return retried([&] { return ::open(path, O_RDWR | O_NONBLOCK | kPrivate); });
    case FileMode::read_only:  // O_NONBLOCK: a fifo must not hold the caller up
    case FileMode::shared:
      return retried([&] { return ::open(path, O_RDONLY | O_NONBLOCK | kPrivate); });
  }
  return -1;
}

// What the file system asks of transfers past the page cache; 0: it has none. (tmpfs takes O_DIRECT
// and copies through the page cache all the same.)
std::uint32_t direct_alignment(int file) {
  struct statx facts {};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) != 0) return 0;
  if ((facts.stx_mask & STATX_DIOALIGN) == 0 || facts.stx_dio_offset_align == 0) return 0;
  return std::max({kSector, facts.stx_dio_mem_align, facts.stx_dio_offset_align});
}

// Chooses between direct and buffered. Set after opening, since O_CREAT with a refused O_DIRECT
// leaves the file behind.
void set_access(const FileSpec& spec, OpenFile& open) {
  const std::uint32_t asked = spec.direct ? direct_alignment(open.handle) : 0;
  open.direct = asked != 0 && ::fcntl(open.handle, F_SETFL, O_DIRECT) == 0;
  if (!open.direct) ::fcntl(open.handle, F_SETFL, 0);
  open.alignment = std::max({1U, open.direct ? asked : 1U, spec.alignment});
}

// One that has no size, as ramfs, does not say.
std::uint64_t available(const struct statvfs& facts) {
  if (facts.f_blocks == 0) return std::numeric_limits<off_t>::max();
  return std::uint64_t{facts.f_bavail} * facts.f_frsize;
}

Status no_space(const FileSpec& spec, std::uint64_t free, std::string_view why) {
  return Status(Code::out_of_space,
                fmt::format("{}: needs {}, but its file system has {} free{}: free some space, "
                            "choose another folder, or ask for less",
                            spec.path.string(), format_bytes(spec.size), format_bytes(free), why));
}

// Without fallocate nothing can be promised. A scratch file is written in place for hours and must
// not meet a full disk then; a new file is written once, and its writer learns of it at once.
Status reserve_without_fallocate(const FileSpec& spec, int file) {
  if (spec.mode == FileMode::scratch) {
    return Status(Code::unavailable,
                  fmt::format("{}: its file system cannot reserve space (fallocate): choose a "
                              "folder on ext4, xfs, btrfs or tmpfs",
                              spec.path.string()));
  }
  if (::ftruncate(file, static_cast<off_t>(spec.size)) == 0) return {};
  return failure(errno, "set the size of", spec.path);
}

Status reserve(const FileSpec& spec, int file) {
  if (spec.size == 0 || only_reads(spec.mode)) return {};
  if (spec.size > std::uint64_t{std::numeric_limits<off_t>::max()}) {
    return Status(Code::invalid, fmt::format("{}: no file can have {} bytes: ask for less",
                                             spec.path.string(), spec.size));
  }
  struct statvfs facts {};
  if (::fstatvfs(file, &facts) != 0) return failure(errno, "ask for the free space of", spec.path);
  // Asked first, so that a refusal does not take the space from others for a moment.
  if (spec.size > available(facts)) return no_space(spec, available(facts), "");
  // Mode 0: with KEEP_SIZE, later writes would extend the file, and each would go to a worker.
  if (retried([&] { return ::fallocate(file, 0, 0, static_cast<off_t>(spec.size)); }) == 0)
    return {};
  const int error = errno;
  if (::ftruncate(file, 0) != 0) return failure(errno, "shrink", spec.path);  // ext4 keeps it all
  if (error == EOPNOTSUPP || error == ENOSYS) return reserve_without_fallocate(spec, file);
  if (!no_room(error)) return failure(error, "reserve space for", spec.path);
  return no_space(spec, available(facts), fmt::format(" and refused ({})", strerrorname_np(error)));
}

Status measure(const FileSpec& spec, OpenFile& open) {
  struct stat facts {};
  if (::fstat(open.handle, &facts) != 0) return failure(errno, "look at", spec.path);
  if (!S_ISREG(facts.st_mode)) {
    return Status(Code::invalid, fmt::format("{} is not a regular file: give the path of one",
                                             spec.path.string()));
  }
  open.size = static_cast<std::uint64_t>(facts.st_size);
  return {};
}

Status finish(const FileSpec& spec, OpenFile& open) {
  set_access(spec, open);
  open.name = spec.mode == FileMode::scratch ? fmt::format("scratch file in {}", spec.path.string())
                                             : spec.path.string();
  return {};
}

// Of the descriptor that does the I/O: the lock lives as long as the last transfer of a process
// that was killed. A reader does without where the file system has no locks.
Status lock(const FileSpec& spec, int file) {
  const bool shared = spec.mode == FileMode::shared;
  const int kind = shared ? LOCK_SH : LOCK_EX;
  if (retried([&] { return ::flock(file, kind | LOCK_NB); }) == 0) return {};
  if (errno != EWOULDBLOCK) return shared ? Status() : failure(errno, "lock", spec.path);
  return Status(Code::locked,
                fmt::format("{} is in use by another process or engine: wait until it ends, or "
                            "choose another folder",
                            spec.path.string()));
}

// Nobody else sees what is written over it, and no write of it can meet a full disk.
Status check_spare(const FileSpec& spec, int file) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return failure(errno, "look at", spec.path);
  constexpr std::uint64_t kBlock = 512;  // of st_blocks
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (size == spec.size && facts.st_nlink == 1 &&
      static_cast<std::uint64_t>(facts.st_blocks) * kBlock >= size)
    return {};
  return Status(Code::unavailable,
                fmt::format("{} has {} bytes, {} names and {} blocks, not {} bytes of its own",
                            spec.path.string(), size, facts.st_nlink, facts.st_blocks, spec.size));
}

Status prepare(const FileSpec& spec, OpenFile& open) {
  HEADRACE_TRY(measure(spec, open));
  if (spec.mode != FileMode::scratch && spec.mode != FileMode::read_only) {
    HEADRACE_TRY(lock(spec, open.handle));
    HEADRACE_TRY(measure(spec, open));  // it may have been made meanwhile
  }
  if (spec.mode == FileMode::overwrite) HEADRACE_TRY(check_spare(spec, open.handle));
  const bool may_exist = spec.mode == FileMode::exclusive || spec.mode == FileMode::overwrite;
  open.existed = may_exist && open.size > 0;
  if (open.existed) return finish(spec, open);
  HEADRACE_TRY(reserve(spec, open.handle));
  open.size = std::max(open.size, only_reads(spec.mode) ? 0 : spec.size);
  return finish(spec, open);
}

const char* verb(FileMode mode) {
  switch (mode) {
    case FileMode::scratch:
      return "create a scratch file in";
    case FileMode::create:
      return "create";
    case FileMode::exclusive:
    case FileMode::overwrite:
    case FileMode::read_only:
    case FileMode::shared:
      return "open";
  }
  return "open";
}

}  // namespace

Result<OpenFile> IoEngine::open_file(const FileSpec& spec) {
  Descriptor file(open_by_mode(spec));
  if (file.get() < 0) return failure(errno, verb(spec.mode), spec.path);
  OpenFile open;
  open.handle = file.get();
  if (Status how = prepare(spec, open); !how.ok()) {
    if (spec.mode == FileMode::create) ::unlink(spec.path.c_str());
    return how;
  }
  file.release();
  return open;
}

void IoEngine::close_file(const OpenFile& file) {
  if (file.handle < 0) return;
  let_go(file);
  ::close(file.handle);
}

void IoEngine::let_go(const OpenFile& file) {
  struct stat facts {};
  if (::fstat(file.handle, &facts) == 0 && facts.st_nlink == 0)
    std::ignore = ::ftruncate(file.handle, 0);  // refused when read-only: then it goes later
  ::flock(file.handle, LOCK_UN);
}

Status IoEngine::make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), kFolderMode) == 0) return {};
  return failure(errno, "create the folder", folder);
}

Status IoEngine::rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return failure(errno, fmt::format("rename {} to", from.string()), to);
}

Status IoEngine::sync_folder(const fs::path& folder) {
  const Descriptor open(
      retried([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (open.get() >= 0 && retried([&] { return ::fsync(open.get()); }) == 0) return {};
  return failure(errno, "sync the folder", folder);
}

Status IoEngine::remove(const fs::path& file_or_empty_folder) {
  if (std::remove(file_or_empty_folder.c_str()) == 0) return {};
  return failure(errno, "remove", file_or_empty_folder);
}

Result<Entry> IoEngine::look(const fs::path& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return Entry::nothing;
    return failure(errno, "look at", path);
  }
  if (S_ISREG(facts.st_mode)) return Entry::file;
  return S_ISDIR(facts.st_mode) ? Entry::folder : Entry::other;
}

Result<std::uint64_t> IoEngine::free_bytes(const fs::path& folder) {
  struct statvfs facts {};
  if (::statvfs(folder.c_str(), &facts) == 0) return available(facts);
  return failure(errno, "ask for the free space of", folder);
}

Status IoEngine::register_memory(Bytes) {
  return Status(Code::unavailable, "this I/O engine does not register memory");
}

void IoEngine::unregister_memory(Bytes) {}

}  // namespace headrace
