// Checks a checkpoint offline: every block of every tensor, on all cores, in bounded memory.
//
// Needs no engine and no platform; blocks the caller until it is done. No links are followed. A
// save into the folder meanwhile does no harm: what was whole at the start is what is checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/status.h"
#include "runtime/kinds.h"

namespace headrace {

struct CheckOptions {
  int threads = 0;                 // 0: every CPU this process may use
  std::size_t listed_blocks = 16;  // bad blocks past these are only counted
  // Bytes checked so far, and all of them. From one thread at a time, after each block.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

// A block whose bytes are not those that were saved.
struct BadBlock {
  std::string tensor;
  Kind kind = Kind::master;
  std::uint64_t begin = 0;  // elements [begin, end) of the tensor
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;  // of its first byte in the data file
};

struct CheckReport {
  std::uint64_t generation = 0;  // which save this is, counted from the folder's first
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;  // of state, all read
  std::uint64_t blocks = 0;
  std::uint64_t bad_blocks = 0;
  std::vector<BadBlock> bad;  // the first ones, in file order
  double seconds = 0;

  bool whole() const noexcept { return bad_blocks == 0; }
};

// Code::corrupt: a damaged manifest, a missing or truncated data file. Code::invalid: not a
// checkpoint, or behind a link. Code::io: the system could not read. Bad blocks are no error but
// what the report is for.
Result<CheckReport> check_checkpoint(const std::filesystem::path& folder,
                                     CheckOptions options = {});

}  // namespace headrace
