// QueueLoad: what `bench io` asks of one drive, through headrace's own IoQueue.
//
// Blocks in order through unnamed files that are gone with the object; more of them are queued than
// may be in flight, so that `depth` always are. Reads have files of their own, written once, in
// which every 4096 bytes say which block they are; the buffers of writes carry the number of the
// buffer and of the run instead, so that nothing is touched while the clock runs. From one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/raw_disk.h"
#include "io/platform.h"

namespace headrace::bench {

struct QueueLoadOptions {
  std::vector<std::filesystem::path> folders;  // all on one drive
  unsigned files = 1;                          // in each folder, for each of reading and writing
  std::uint64_t file_bytes = kGiB;             // a multiple of block_bytes
  std::uint64_t block_bytes = kMiB;            // a multiple of 4096
  unsigned depth = 32;
  bool reads = true;  // whether there will be any
  bool writes = true;
  bool direct = true;
  bool posix = false;  // threads, as many as `depth`, instead of io_uring
  std::uint64_t seed = 1;
};

// How much a run moves.
struct LoadAmount {
  std::uint64_t bytes = 0;  // rounded up to whole blocks; counts when `seconds` is 0
  double seconds = 0;       // nothing new is queued after this time
};

class QueueLoad {
 public:
  // Writes all files once. `unavailable` without io_uring, and when direct access was asked for
  // where there is none; `out_of_space` and `out_of_memory` when it does not fit. `platform`
  // outlives it.
  static Result<QueueLoad> open(Platform& platform, const QueueLoadOptions& options);
  QueueLoad(QueueLoad&&) noexcept;
  QueueLoad& operator=(QueueLoad&&) noexcept;
  ~QueueLoad();

  // Before each run: the buffers' bytes.
  void prepare(Direction direction);
  // The clock runs from the first request to the last one's end; no byte is looked at meanwhile.
  // Mixed reads and writes in turns, a half of the files each. After a failure the object is only
  // good for being destroyed.
  Result<RawSample> run(Direction direction, const LoadAmount& amount);
  // After it: `corrupt`, unless all bytes that are still in the buffers are what was to be read.
  Status check();

  // Reads all files back; `corrupt`, naming the block, unless every byte is what was written.
  Status verify();

  // What this machine refused, in sentences.
  const std::vector<std::string>& notes() const noexcept;

 private:
  struct State;
  explicit QueueLoad(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace headrace::bench
