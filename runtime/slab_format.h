// What a reusable slab says of itself: a header in each of its files, and two commit records, one
// of which always names the last whole step. Byte by byte in docs/nvme_layout.md. Pure functions.
//
// Both are arrays of 64-bit little-endian words, the last of which is the XXH3-64 of those before.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "io/status.h"

namespace headrace {

inline constexpr char kSlabName[] = "headrace.slab";  // in each folder
constexpr std::uint64_t kSlabHeaderBytes = 4096;

// What must be the same for state on the drive to mean anything.
struct SlabIdentity {
  std::uint64_t parameters = 0;
  std::uint64_t tensors = 0;
  std::uint64_t model = 0;  // checksum of what each tensor is
  std::uint64_t format = 0;
  std::uint64_t shards = 0;
  std::uint64_t space = 0;   // bytes of both generations, in all files
  std::uint64_t layout = 0;  // checksum of where each shard lies
  std::uint64_t paths = 0;
};

struct SlabHeader {
  SlabIdentity identity;
  std::uint64_t slab = 0;   // random; the same in all files of a slab
  std::uint64_t index = 0;  // of this file
  std::uint64_t boot = 0;   // checksum of the boot id of the machine when it was last opened
  std::uint64_t pid = 0;    // of the process that opened it
};

std::vector<std::byte> serialize(const SlabHeader& header);  // kSlabHeaderBytes
// Code::unavailable: nothing was ever written there. Code::corrupt; `where` stands in front.
Result<SlabHeader> parse_slab_header(ConstBytes bytes, std::string_view where);
// Code::invalid with the first thing that differs.
Status check_same(const SlabIdentity& wanted, const SlabIdentity& found, std::string_view where);

// One shard as of a commit.
struct CommittedShard {
  std::uint64_t generation = 0;  // 0 or 1: which of its two places holds it
  std::uint64_t epoch = 0;
  bool stored = false;                // false: never, all zeros
  std::vector<std::uint64_t> sums;    // of its blocks
  std::vector<std::uint64_t> counts;  // updates that its segments have had
  bool operator==(const CommittedShard&) const = default;
};

struct CommitRecord {
  std::uint64_t sequence = 0;  // of commits; odd ones lie in the second place
  std::uint64_t steps = 0;
  std::uint64_t skipped = 0;
  std::vector<CommittedShard> shards;
};

std::vector<std::uint64_t> serialize(const CommitRecord& record);
// Words of a record of shards with so many blocks and segments.
struct ShardShape {
  std::size_t blocks = 0, segments = 0;
};
std::uint64_t record_words(std::span<const ShardShape> shards);
// Code::corrupt: not a whole record of these shards.
Result<CommitRecord> parse_record(std::span<const std::uint64_t> words,
                                  std::span<const ShardShape> shards);

}  // namespace headrace
