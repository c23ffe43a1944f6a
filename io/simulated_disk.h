// SimulatedDisk: files and folders in memory, of one simulated platform after another; all of a
// platform's engines share it. One thread. It fails as a file system does, with errno's numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "io/power_log.h"

namespace headrace {

class SimulatedDisk {
 public:
  // Without `keeps`, files have sizes and no bytes: what is read is whatever was there.
  SimulatedDisk(std::uint64_t capacity, std::uint32_t alignment, bool keeps = true)
      : capacity_(capacity), alignment_(alignment), keeps_(keeps) {}

  // With its parents; what is there stays.
  void make_folders(const std::filesystem::path& folder);

  Result<OpenFile> open(const FileSpec& spec);
  void close(int handle);
  // The process is gone: so are its locks and handles, and with them the files that have no name.
  void close_all() {
    open_.clear();
    locked_.clear();
  }
  // Bytes moved, fewer at the end of the file or of the space; or -errno.
  std::int64_t read(int handle, std::uint64_t offset, Bytes to) const;
  std::int64_t write(int handle, std::uint64_t offset, ConstBytes from);

  Status make_folder(const std::filesystem::path& folder);
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to);
  Status remove(const std::filesystem::path& path);
  Entry look(const std::filesystem::path& path) const;
  std::uint64_t free_bytes() const;
  // Code::locked while it is held; whoever locked it unlocks it, under whatever name it then has.
  Result<DiskId> lock_folder(const std::filesystem::path& folder);
  void unlock_folder(DiskId folder) { locked_.erase(folder); }

  // What a power cut leaves: see PowerLog. From log_power() on, everything there being safe.
  void log_power();
  void sync(int handle);
  void sync_folder(const std::filesystem::path& folder);
  // Every handle and every lock is gone; the log begins anew.
  void cut_power(std::uint64_t seed);

 private:
  struct Content {
    DiskId id = 0;  // 0: it has no name
    std::uint64_t size = 0;
    std::vector<std::byte> bytes;  // as many, or none
  };
  struct Open {
    std::shared_ptr<Content> content;
    std::uint32_t alignment = 1;
    FileMode mode = FileMode::scratch;
  };
  std::int64_t misfit(const Open& open, std::uint64_t offset, ConstBytes memory) const;
  Result<std::shared_ptr<Content>> make(const std::string& name, const FileSpec& spec);
  Status lock(const std::shared_ptr<Content>& content, const FileSpec& spec) const;
  void resize(Content& content, std::uint64_t size) const;
  bool has_children(const std::string& folder) const;
  Status rename_file(const std::string& from, const std::string& to);
  Status rename_folder(const std::string& from, const std::string& to);
  DiskTree tree() const;
  void grow(const DiskTree& tree, DiskId folder, const std::string& name);

  const std::uint64_t capacity_;
  const std::uint32_t alignment_;
  const bool keeps_;
  std::map<std::string, DiskId> folders_ = {{"/", kRootFolder}};
  DiskId last_id_ = kRootFolder;
  std::set<DiskId> locked_;
  std::optional<PowerLog> log_;
  std::map<std::string, std::shared_ptr<Content>> names_;
  std::map<int, Open> open_;  // keeps what has no name any more
  int next_handle_ = 0;
};

}  // namespace headrace
