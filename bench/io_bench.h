// `bench io`: reads and writes of files through headrace's own IoQueue, beside a plain io_uring
// loop of the same blocks, depth and direction in the same round, taking turns in going first.
//
// The files have no names and are gone with the process. Warm-up is not counted; data are random
// and every byte is verified, most of it after the clock has stopped. Several folders on one drive
// share its queue and depth; several drives are loaded at the same time, and their rates added.
// Call it from one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "bench/raw_disk.h"
#include "bench/report.h"
#include "bench/round_watch.h"

namespace headrace::bench {

enum class IoBenchBackend : std::uint8_t { uring, posix };

struct IoBenchOptions {
  std::vector<std::filesystem::path> folders;  // one at least; each must exist
  std::vector<Direction> directions{Direction::read, Direction::write, Direction::mixed};
  // Each block size is measured with each depth; no depths: 32 MiB in flight, 128 blocks at most.
  std::vector<std::uint64_t> blocks{kMiB, 4 * kMiB};  // multiples of 4096
  std::vector<unsigned> depths;                       // of each drive, 1 to 1024
  unsigned files = 1;               // in each folder, for each of reading and writing
  std::uint64_t file_bytes = kGiB;  // rounded down to whole blocks
  bool buffered = false;            // through the page cache, the loop too
  IoBenchBackend backend = IoBenchBackend::uring;  // posix: threads, one for each block in flight
  double seconds = 0;                              // of a sample; 0: as long as its bytes take
  std::uint64_t sample_bytes = kGiB;               // of each drive
  std::size_t rounds = 0;            // of each row; 0: as many as `at_most` allows, 3 to 30
  std::chrono::seconds at_most{50};  // all together, when `rounds` is 0
  bool bound = true;                 // false: without the plain loop, and without ratios
  std::uint64_t seed = 1;
  std::filesystem::path trace;  // a Chrome trace of headrace's requests goes there; empty: none
  RoundWatch watch = {};
};

// About ten seconds.
IoBenchOptions quick_io_bench();

// A row io.DIRECTION.BLOCKxDEPTH, such as io.read.1MiBx32, for each of them, in decimal GB/s, with
// the CPU seconds that the whole process took per GB on headrace's side; ".buffered" and ".posix"
// at its end where they were asked for. `unavailable` without direct access unless buffered, or
// without io_uring; `out_of_space` with both sizes; `corrupt` for a wrong byte. Notes say what the
// machine refused.
Result<Report> bench_io(const IoBenchOptions& options);

}  // namespace headrace::bench
