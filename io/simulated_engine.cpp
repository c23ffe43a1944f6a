#include "io/simulated_engine.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <random>

namespace headrace {
namespace {

Nanoseconds time_of(std::size_t bytes, std::uint64_t bytes_per_second) {
  if (bytes_per_second == 0) return Nanoseconds(0);
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second);
  return Nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

class SimulatedEngine : public IoEngine {
 public:
  SimulatedEngine(std::shared_ptr<SimulatedDisk> disk, const SimulatedDrive& drive,
                  const Clock& clock)
      : disk_(std::move(disk)), drive_(drive), clock_(clock), random_(drive.seed) {}

  std::string describe() const override { return "simulated disk"; }
  Status start(int) override { return {}; }

  bool stop(Nanoseconds) override {
    started_.clear();
    return true;
  }

  bool submit(const Transfer& transfer) override {
    const std::uint64_t rate = transfer.direction == Direction::read
                                   ? drive_.read_bytes_per_second
                                   : drive_.write_bytes_per_second;
    free_at_ = std::max(free_at_, clock_.now()) + time_of(transfer.size, rate);
    const auto spread = static_cast<std::uint64_t>(drive_.latency.count()) / 8 + 1;
    const Nanoseconds late(static_cast<std::int64_t>(random_() % spread));
    Started started{transfer, std::nullopt};
    // A sync is of what was written when it was asked for.
    if (random_() % 2 == 0 || transfer.direction == Direction::sync)
      started.result = move(transfer);
    started_.emplace(free_at_ + drive_.latency + late, started);
    return true;
  }

  void wait(std::vector<Completion>& completions, Nanoseconds) override {
    while (!started_.empty() && started_.begin()->first <= clock_.now()) {
      const Started& first = started_.begin()->second;
      const std::int64_t result = first.result ? *first.result : move(first.transfer);
      completions.push_back({first.transfer.token, result});
      started_.erase(started_.begin());
    }
  }

  Nanoseconds due() const override { return started_.empty() ? kForever : started_.begin()->first; }

  Status register_memory(Bytes) override { return {}; }
  void unregister_memory(Bytes) override {}

  Result<OpenFile> open_file(const FileSpec& spec) override { return disk_->open(spec); }
  void close_file(const OpenFile& file) override { disk_->close(file.handle); }
  Status make_folder(const std::filesystem::path& folder) override {
    return disk_->make_folder(folder);
  }
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return disk_->rename(from, to);
  }
  Status sync_folder(const std::filesystem::path& folder) override {
    if (disk_->look(folder) != Entry::folder)
      return Status(Code::io, folder.string() + " is not a folder of the simulated disk");
    disk_->sync_folder(folder);
    return {};
  }
  Result<FolderLock> lock_folder(const std::filesystem::path& folder) override {
    HEADRACE_ASSIGN(const DiskId locked, disk_->lock_folder(folder));
    return FolderLock([disk = disk_, locked] { disk->unlock_folder(locked); });
  }
  Status remove(const std::filesystem::path& path) override { return disk_->remove(path); }
  Result<Entry> look(const std::filesystem::path& path) override { return disk_->look(path); }
  Result<std::uint64_t> free_bytes(const std::filesystem::path&) override {
    return disk_->free_bytes();
  }

 private:
  struct Started {
    Transfer transfer;
    std::optional<std::int64_t> result;  // when the bytes have moved
  };

  std::int64_t move(const Transfer& transfer) {
    const Bytes memory(transfer.data, transfer.size);
    switch (transfer.direction) {
      case Direction::read:
        return disk_->read(transfer.handle, transfer.offset, memory);
      case Direction::write:
        return disk_->write(transfer.handle, transfer.offset, memory);
      case Direction::sync:
        disk_->sync(transfer.handle);
        return 0;
    }
    return -EINVAL;
  }

  const std::shared_ptr<SimulatedDisk> disk_;
  const SimulatedDrive drive_;
  const Clock& clock_;
  std::mt19937_64 random_;
  Nanoseconds free_at_{0};
  std::multimap<Nanoseconds, Started> started_;  // by when they complete
};

}  // namespace

std::unique_ptr<IoEngine> simulated_engine(std::shared_ptr<SimulatedDisk> disk,
                                           const SimulatedDrive& drive, const Clock& clock) {
  return std::make_unique<SimulatedEngine>(std::move(disk), drive, clock);
}

}  // namespace headrace
