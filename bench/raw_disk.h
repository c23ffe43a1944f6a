// RawDisk: what a disk gives a plain io_uring loop, the bound of everything that headrace does on
// it.
//
// A fixed number of blocks in flight over one unnamed file that is gone with the object, written
// once before anything is measured. Shares no code with io/'s queues. The bytes are random, every
// 4096 of them say which block and which write they belong to; measure() looks at two of these
// marks in each block that it reads, verify() at every byte of the file. From one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "io/status.h"

namespace headrace::bench {

struct RawDiskOptions {
  std::filesystem::path folder;
  std::uint64_t file_bytes = kGiB;       // a multiple of block_bytes, at least two of them
  std::uint64_t block_bytes = 4 * kMiB;  // a multiple of 4096, at most 1 GiB
  unsigned in_flight = 16;
  bool direct = true;  // false: through the page cache
  std::uint64_t seed = 1;
};

enum class Direction : std::uint8_t { read, write, mixed };

struct RawSample {
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  double seconds = 0;

  double gigabytes_per_second() const noexcept {
    return static_cast<double>(read_bytes + written_bytes) / seconds / 1e9;
  }
};

class RawDisk {
 public:
  // Writes the whole file once. `out_of_space` when it does not fit, `unavailable` without
  // io_uring, `invalid` for options out of range.
  static Result<RawDisk> open(const RawDiskOptions& options);
  RawDisk(RawDisk&&) noexcept;
  RawDisk& operator=(RawDisk&&) noexcept;
  ~RawDisk();

  // Moves `bytes`, rounded up to whole blocks, through the file in its order, again and again:
  // mixed reads its first half and writes its second, in turns, as many blocks of each. The clock
  // runs from the first submission to the last completion. `corrupt` when a mark is wrong; after a
  // failure the object is only good for being destroyed.
  Result<RawSample> measure(Direction direction, std::uint64_t bytes);

  // Reads the whole file back; `corrupt`, naming the block, unless every byte is what was written.
  Status verify();

  // Past the page cache. When false the rates are no bound of the disk.
  bool direct() const noexcept;

  // What this machine refused, in sentences: direct access, huge pages, registration.
  const std::vector<std::string>& notes() const noexcept;

 private:
  struct Loop;
  explicit RawDisk(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace headrace::bench
