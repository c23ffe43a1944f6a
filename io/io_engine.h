// IoEngine: where the chunks of an IoQueue go: io_uring, threads, memory, or another engine whose
// results it changes. It knows nothing of events, order, chunking or retries.
//
// One thread, the driver, calls start, submit, wait, the registrations and stop. open_file,
// close_file and the folder calls come from any thread. The memory of a transfer belongs to the
// engine until its completion has been handed out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/bytes.h"
#include "io/clock.h"
#include "io/file.h"
#include "io/status.h"

namespace headrace {

enum class Direction : std::uint8_t { read, write, sync };  // sync: fdatasync, no bytes

// What lies at a path: itself, so that a link is `other`, whatever it points to.
enum class Entry : std::uint8_t { nothing, file, folder, other };

struct Transfer {
  std::uint64_t token = 0;  // comes back with the completion
  Direction direction = Direction::read;
  int handle = -1;  // OpenFile::handle
  std::uint64_t offset = 0;
  std::byte* data = nullptr;  // only read when writing
  std::size_t size = 0;       // at most 1 GiB
};

struct Completion {
  std::uint64_t token = 0;
  std::int64_t result = 0;  // bytes moved, fewer than asked for too; or -errno
};

// A folder is locked while this lives, whatever it is renamed to. Move-only.
class FolderLock {
 public:
  FolderLock() = default;
  explicit FolderLock(std::function<void()> unlock) : unlock_(std::move(unlock)) {}
  FolderLock(FolderLock&& other) noexcept : unlock_(std::exchange(other.unlock_, nullptr)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(unlock_, other.unlock_);
    return *this;
  }
  ~FolderLock() {
    if (unlock_) unlock_();
  }

 private:
  std::function<void()> unlock_;
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;
  virtual std::string describe() const = 0;  // "io_uring, 256 entries, registered buffers"

  // `wake_fd`: an eventfd; wait() returns when it is readable (and drains it).
  virtual Status start(int wake_fd) = 0;
  // After stop no memory is touched any more; what is in flight is waited for or, when that can't
  // end, abandoned: then false, and the engine must not be destroyed.
  virtual bool stop(Nanoseconds at_most) = 0;
  // False: full; the driver tries again after the next wait().
  virtual bool submit(const Transfer& transfer) = 0;
  // Appends what has completed; blocks until something has, the eventfd is readable, or `at_most`
  // has passed. Zero: never blocks. May return for nothing. Sends what was submitted first.
  virtual void wait(std::vector<Completion>& completions, Nanoseconds at_most) = 0;
  // When the next completion will be there, for engines that live in virtual time.
  virtual Nanoseconds due() const { return kForever; }
  // Makes transfers from this memory cheaper. A failure is no harm: it only says why not.
  virtual Status register_memory(Bytes memory);
  virtual void unregister_memory(Bytes memory);

  // By default, the machine's file systems (io/file_system.cpp).
  virtual Result<OpenFile> open_file(const FileSpec& spec);
  virtual void close_file(const OpenFile& file);
  virtual Status make_folder(const std::filesystem::path& folder);  // 0700; Code::io when it exists
  virtual Status rename(const std::filesystem::path& from, const std::filesystem::path& to);
  virtual Status sync_folder(const std::filesystem::path& folder);
  virtual Status remove(const std::filesystem::path& file_or_empty_folder);
  virtual Result<Entry> look(const std::filesystem::path& path);
  virtual Result<std::uint64_t> free_bytes(const std::filesystem::path& folder);
  // Against whoever locks it too, also in other processes; a killed one lets go. Code::locked
  // names its process where that is known.
  virtual Result<FolderLock> lock_folder(const std::filesystem::path& folder);

 protected:
  // Gives back the lock of a file, and the space of an unnamed one, now: the kernel may have it
  // open for a moment longer. No transfer is left.
  static void let_go(const OpenFile& file);
};

// Code::unavailable, with errno, when the kernel or a container profile refuses io_uring.
struct UringOptions {
  unsigned entries = 256;
  bool register_buffers = true;  // always tried, never required
  int without = -1;              // an operation (IORING_OP_...) that counts as missing: for tests
};
Result<std::unique_ptr<IoEngine>> uring_engine(UringOptions options = {});

struct PosixOptions {
  int threads = 8;
};
std::unique_ptr<IoEngine> posix_engine(PosixOptions options = {});

}  // namespace headrace
