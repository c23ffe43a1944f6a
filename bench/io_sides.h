// The two sides of `bench io`: headrace's queues, and plain loops, one for each drive. From one
// thread; each side loads all of its drives at the same time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/io_bench.h"
#include "bench/queue_load.h"
#include "io/lane.h"

namespace headrace::bench {

using Folders = std::vector<std::filesystem::path>;

// One line of the table over block size and depth.
struct Shape {
  std::uint64_t block = 0;
  unsigned depth = 0;
};

bool reads_files(const IoBenchOptions& options);
bool writes_files(const IoBenchOptions& options);

// What one side did in one turn, on all drives.
struct Turn {
  double gigabytes = 0;
  double rate = 0;     // GB/s
  double cpu = 0;      // seconds per GB
  double workers = 0;  // of them, the kernel's
};

class QueueSide {
 public:
  Status open(Platform& platform, const IoBenchOptions& options, const Shape& shape,
              const std::vector<Folders>& drives);
  Result<Turn> run(Direction direction, const LoadAmount& amount);  // of each drive
  Status verify();
  std::size_t drives() const noexcept { return loads_.size(); }
  void tell(std::vector<std::string>& notes) const;  // those that are not there yet

 private:
  Result<std::vector<RawSample>> run_all(Direction direction, const LoadAmount& amount);

  std::vector<QueueLoad> loads_;
};

class LoopSide {
 public:
  explicit LoopSide(Platform& platform) : platform_(platform) {}
  LoopSide(const LoopSide&) = delete;
  LoopSide& operator=(const LoopSide&) = delete;
  ~LoopSide();

  Status open(const IoBenchOptions& options, const Shape& shape,
              const std::vector<Folders>& drives);
  Result<Turn> run(Direction direction, std::uint64_t bytes);  // of each drive
  void tell(std::vector<std::string>& notes) const;

 private:
  // A ring belongs to one thread: each loop lives on its lane.
  struct Loop {
    RawDiskOptions options;
    std::unique_ptr<Lane> lane;
    std::optional<RawDisk> disk;  // touched only by the lane while it works
    RawSample sample;
  };
  Status on_each(const std::function<Status(Loop&)>& work);

  Platform& platform_;
  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace headrace::bench
