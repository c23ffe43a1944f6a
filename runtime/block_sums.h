// BlockSums: the XXH3-64 of each block of one shard's bytes on NVMe, as they were last stored: kept
// in memory, so that a block that is stale, or another shard's, is found like a flipped bit.
//
// note() runs on the optimizer's lane, check() on a queue's thread; the events of the shard order
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/status.h"
#include "tiers/tier.h"

namespace headrace {

constexpr std::uint64_t kSumBlockBytes = kMiB;

class BlockSums {
 public:
  // `name` is of the shard, for messages: "shard 3 (unit 1)". Until the first note(), every byte of
  // `home` is expected to be zero. Blocks end at `border` too: what lies before it is read alone.
  BlockSums(std::string name, const Region& home, std::uint64_t border = 0);

  // What can be stored by itself: runs of whole blocks, in order, some MiB each.
  struct Run {
    std::uint64_t at = 0, size = 0;
  };
  std::vector<Run> runs() const;
  // `bytes` that are about to be stored from `at` on, a whole number of blocks.
  void note(std::uint64_t at, ConstBytes bytes);
  // As noted before by another process; false: never. Takes the first sums, as many as blocks.
  void adopt(bool noted, std::span<const std::uint64_t> sums);
  bool noted() const noexcept { return noted_; }
  std::size_t blocks() const noexcept { return blocks_.size(); }
  std::vector<std::uint64_t> sums() const;
  // `bytes` that were read from `at` on, a whole number of blocks. Code::corrupt names the block.
  Status check(std::uint64_t at, ConstBytes bytes) const;

 private:
  struct Block {
    std::uint64_t at = 0, size = 0;
    std::uint64_t sum = 0;
  };
  std::vector<Block>::const_iterator first_in(std::uint64_t at) const;
  Status refuse(const Block& block, std::uint64_t found) const;

  const std::string name_;
  std::vector<Block> blocks_;  // none crosses from one file to the next
  bool noted_ = false;
};

}  // namespace headrace
