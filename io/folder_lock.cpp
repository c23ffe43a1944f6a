// The machine's locks of folders: flock of the folder itself, which no file is needed for, which a
// rename takes along, and which goes with its process.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "io/io_engine.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr int kRenamesMeanwhile = 100;

Status failure(const fs::path& folder) {
  return Status(Code::io, fmt::format("cannot lock the folder {}: {}", folder.string(),
                                      std::strerror(errno)));
}

// Who holds a flock of this folder, as the kernel lists it: "1: FLOCK ADVISORY WRITE 4711 fe:01:12
// 0 EOF". 0: not known.
long holder_of(const struct stat& folder) {
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    char kind[16];
    long process = 0;
    unsigned major = 0, minor = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%*s %15s %*s %*s %ld %x:%x:%lu", kind, &process, &major, &minor,
                    &inode) == 5 &&
        std::strcmp(kind, "FLOCK") == 0 && inode == folder.st_ino &&
        makedev(major, minor) == folder.st_dev)
      return process;
  }
  return 0;
}

Status held(const fs::path& folder, const struct stat& facts) {
  const long process = holder_of(facts);
  const std::string who = process == ::getpid() ? "this process"
                          : process > 0         ? fmt::format("process {}", process)
                                                : "another process";
  return Status(Code::locked, fmt::format("{} is locked by {}: wait for it, or take another folder",
                                          folder.string(), who));
}

// What is locked may have been renamed or removed while it was opened.
bool lies_at(const fs::path& folder, const struct stat& locked) {
  struct stat now {};
  return ::lstat(folder.c_str(), &now) == 0 && now.st_ino == locked.st_ino &&
         now.st_dev == locked.st_dev;
}

}  // namespace

Result<FolderLock> IoEngine::lock_folder(const fs::path& folder) {
  for (int attempt = 0; attempt < kRenamesMeanwhile; ++attempt) {
    const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return failure(folder);
    FolderLock lock([file] { ::close(file); });
    struct stat facts {};
    if (::fstat(file, &facts) != 0) return failure(folder);
    if (::flock(file, LOCK_EX | LOCK_NB) != 0)
      return errno == EWOULDBLOCK ? held(folder, facts) : failure(folder);
    if (lies_at(folder, facts)) return lock;
  }
  return Status(Code::unavailable,
                fmt::format("{} is renamed all the time: take another folder", folder.string()));
}

}  // namespace headrace
