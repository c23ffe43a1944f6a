// `bench copy`: the Mover's moves between host, device and NVMe beside plain memcpy, and the raw
// disk, of the same round.
//
// Everything is queued before the clock starts; one round warms up. The bytes are random, and those
// of the last round are verified after its clocks have stopped. On the host device the device's
// memory is a mapping that only its streams know, and its bound a memcpy into one like it. Call it
// from one thread; takes 9 times `bytes` of memory, and 3 times on the disk beside the raw file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "bench/report.h"
#include "bench/round_watch.h"
#include "io/bytes.h"
#include "io/status.h"

namespace headrace::bench {

struct CopyBenchOptions {
  std::filesystem::path folder;      // of the rows with NVMe, must exist; empty: none of them
  std::uint64_t bytes = 256 * kMiB;  // of a sample, a multiple of every size
  std::vector<std::uint64_t> sizes{256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB};  // of a move
  int threads = 0;  // of the row copy.team; 0: all that this process may use
  std::size_t rounds = 12;
  std::chrono::seconds at_most{35};  // fewer rounds, but never none, when they take longer
  std::uint64_t raw_file_bytes = 512 * kMiB;
  std::uint64_t raw_bytes = 128 * kMiB;  // of a sample of the raw disk
  std::filesystem::path trace;           // a Chrome trace of headrace's moves; empty: none
  RoundWatch watch = {};
};

// About ten seconds.
CopyBenchOptions quick_copy_bench();

// For each size S the rows copy.up.S and .down.S (host to device and back), .both.S (both at once,
// their sum), .host.S (host to host), beside memcpy in pieces of S on one thread a direction;
// .nvme_up.S and .nvme_down.S (NVMe to device and back, over slots) beside the slower of the raw
// disk and that memcpy; and copy.team, which has no bound: host to host by memcpy on all threads.
// `invalid` for options out of range, `out_of_memory` or `out_of_space` without room, `corrupt`
// when bytes are not what was moved.
Result<Report> bench_copy(const CopyBenchOptions& options);

}  // namespace headrace::bench
