// Stripes: files, one per path, that together are one address space: unnamed scratch files, or
// named ones that outlive their process.
//
// The stripes of the space lie in one file after the other, in turns as even as the paths' shares
// allow: evenly, or with shares of 3 and 1, A A B A A A B A. So any large range keeps all drives
// busy in proportion. Space is reserved when opened; of scratch files nothing is left behind, even
// after a kill.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "io/io_queue.h"
#include "io/platform.h"

namespace headrace {

struct NvmeOptions {
  bool direct = true;                     // past the page cache, where the file system can
  std::uint32_t alignment = 0;            // 0: what the file systems say; else at least this
  std::uint64_t stripe_bytes = 2 * kMiB;  // of one path after the other; rounded up to alignment
  std::vector<unsigned> shares;           // of each path, 1 to 1024; empty: even
  // Not empty: the files have this name, are locked, and stay when their process ends; front_bytes
  // of each, a multiple of its alignment, come before the space, for their owner's use.
  std::string file_name;
  std::uint64_t front_bytes = 0;
};

// A part of a range that lies contiguous in one file.
struct Piece {
  IoQueue* queue = nullptr;
  const File* file = nullptr;  // lives as long as the Stripes
  std::uint64_t file_offset = 0;
  std::uint64_t at = 0;  // within the range
  std::uint64_t size = 0;
};

class Stripes {
 public:
  Stripes() = default;
  // Each must be an existing folder, and no link. Fails with Code::invalid for a folder, with
  // Code::out_of_space when a file system has too little room, and with what opening says.
  static Result<Stripes> open(Platform& platform, std::span<const std::filesystem::path> folders,
                              std::uint64_t capacity, const NvmeOptions& options);

  // The files of [offset, offset + size), in order of the range; with one path, one piece.
  std::vector<Piece> pieces(std::uint64_t offset, std::uint64_t size) const;
  std::size_t paths() const noexcept { return paths_.size(); }
  // What lies before the space in the file of a path.
  Piece front(std::size_t path) const;
  std::uint64_t file_bytes(std::size_t path) const noexcept { return paths_[path].bytes; }
  unsigned share(std::size_t path) const noexcept { return paths_[path].share; }
  const OpenFile& info(std::size_t path) const { return paths_[path].file.info(); }
  std::uint32_t alignment() const noexcept { return alignment_; }
  bool direct() const noexcept { return direct_; }  // all of them

 private:
  struct Path {
    IoQueue* queue = nullptr;
    unsigned share = 1;
    std::uint64_t bytes = 0;  // of its file
    File file = {};
  };
  // A stripe of one cycle, which has as many as all shares together.
  struct Turn {
    std::size_t path = 0;
    unsigned nth = 0;  // of the path's own in the cycle
  };
  void take_turns();
  std::uint64_t stripes_of(std::size_t path, std::uint64_t stripes) const;
  Status reserve_all(Platform& platform, std::span<const std::filesystem::path> folders,
                     std::uint64_t capacity, const NvmeOptions& options);
  std::vector<Path> paths_;
  std::vector<Turn> turns_;
  std::uint64_t stripe_bytes_ = 0;
  std::uint64_t front_bytes_ = 0;
  std::uint32_t alignment_ = 1;
  bool direct_ = true;
};

}  // namespace headrace
