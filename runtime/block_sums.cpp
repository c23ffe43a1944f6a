#include "runtime/block_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "io/check.h"
#include "runtime/checksum.h"

namespace headrace {
namespace {

bool is_zero(ConstBytes bytes) {
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

BlockSums::BlockSums(std::string name, const Region& home, std::uint64_t border)
    : name_(std::move(name)) {
  const std::uint64_t middle = border > 0 && border < home.size() ? border : home.size();
  for (const auto& [begin, end] : {std::pair{std::uint64_t{0}, middle}, {middle, home.size()}})
    for (const Piece& piece : home.tier().stripes().pieces(home.offset() + begin, end - begin))
      for (std::uint64_t at = 0; at < piece.size; at += kSumBlockBytes)
        blocks_.push_back({begin + piece.at + at, std::min(kSumBlockBytes, piece.size - at)});
}

void BlockSums::adopt(bool noted, std::span<const std::uint64_t> sums) {
  for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i].sum = sums[i];
  noted_ = noted;
}

std::vector<std::uint64_t> BlockSums::sums() const {
  std::vector<std::uint64_t> sums;
  for (const Block& block : blocks_) sums.push_back(block.sum);
  return sums;
}

std::vector<BlockSums::Run> BlockSums::runs() const {
  constexpr std::uint64_t kRunBytes = 8 * kMiB;
  std::vector<Run> runs;
  for (const Block& block : blocks_) {
    if (runs.empty() || runs.back().size + block.size > kRunBytes) runs.push_back({block.at, 0});
    runs.back().size += block.size;
  }
  return runs;
}

std::vector<BlockSums::Block>::const_iterator BlockSums::first_in(std::uint64_t at) const {
  const auto block = std::ranges::lower_bound(blocks_, at, {}, &Block::at);
  HEADRACE_CHECK(block != blocks_.end() && block->at == at);
  return block;
}

void BlockSums::note(std::uint64_t at, ConstBytes bytes) {
  const auto first = static_cast<std::size_t>(first_in(at) - blocks_.cbegin());
  for (Block& block : std::span(blocks_).subspan(first)) {
    if (block.at >= at + bytes.size()) break;
    block.sum = checksum(bytes.subspan(block.at - at, block.size));
  }
  noted_ = true;
}

Status BlockSums::check(std::uint64_t at, ConstBytes bytes) const {
  for (auto block = first_in(at); block != blocks_.end() && block->at < at + bytes.size();
       ++block) {
    HEADRACE_CHECK(block->at + block->size <= at + bytes.size());
    const ConstBytes found = bytes.subspan(block->at - at, block->size);
    if (!noted_ && is_zero(found)) continue;
    const std::uint64_t sum = checksum(found);
    if (!noted_ || sum != block->sum) return refuse(*block, sum);
  }
  return {};
}

Status BlockSums::refuse(const Block& block, std::uint64_t found) const {
  const std::string wanted =
      noted_ ? fmt::format("{:016x} was stored", block.sum) : "nothing but zeros was stored";
  return Status(
      Code::corrupt,
      fmt::format("{}, block {} of {} ({} B from {} on): XXH3 is {:016x}, {}", name_,
                  &block - blocks_.data(), blocks_.size(), block.size, block.at, found, wanted));
}

}  // namespace headrace
