#include "tiers/space_map.h"

#include <iterator>

#include "io/bytes.h"
#include "io/check.h"

namespace headrace {

SpaceMap::SpaceMap(std::uint64_t capacity) : capacity_(capacity) { add_free(0, capacity); }

std::optional<std::uint64_t> SpaceMap::take(std::uint64_t size, std::uint64_t alignment) {
  HEADRACE_CHECK(size > 0 && alignment > 0);
  for (auto fit = free_by_size_.lower_bound({size, 0}); fit != free_by_size_.end(); ++fit) {
    const auto [length, begin] = *fit;
    const std::uint64_t front = (alignment - begin % alignment) % alignment;
    if (front > length - size) continue;
    remove_free(begin, length);
    add_free(begin, front);
    add_free(begin + front + size, length - front - size);
    used_ += size;
    return begin + front;
  }
  return std::nullopt;
}

void SpaceMap::give_back(std::uint64_t offset, std::uint64_t size) {
  HEADRACE_CHECK(size > 0 && size <= used_ && offset <= capacity_ && size <= capacity_ - offset);
  used_ -= size;
  std::uint64_t begin = offset;
  std::uint64_t end = offset + size;
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto [before_begin, before_size] = *std::prev(after);
    HEADRACE_CHECK(before_begin + before_size <= offset);
    if (before_begin + before_size == offset) begin = before_begin;
  }
  if (after != free_.end()) {
    HEADRACE_CHECK(after->first >= end);
    if (after->first == end) end += after->second;
  }
  if (begin < offset) remove_free(begin, offset - begin);
  if (end > offset + size) remove_free(offset + size, end - offset - size);
  add_free(begin, end - begin);
}

std::uint64_t SpaceMap::largest_free() const noexcept {
  return free_by_size_.empty() ? 0 : free_by_size_.rbegin()->first;
}

void SpaceMap::add_free(std::uint64_t offset, std::uint64_t size) {
  if (size == 0) return;
  free_.emplace(offset, size);
  free_by_size_.emplace(size, offset);
}

void SpaceMap::remove_free(std::uint64_t offset, std::uint64_t size) {
  free_.erase(offset);
  free_by_size_.erase({size, offset});
}

}  // namespace headrace
