// SpaceMap: which ranges of an address space are taken. Pure arithmetic, 64-bit; not synchronized.
//
// Best fit: the smallest free range that holds what is asked, the lowest among equals. What is
// given back joins its free neighbours at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace headrace {

class SpaceMap {
 public:
  explicit SpaceMap(std::uint64_t capacity);

  // The offset, a multiple of `alignment`, of `size` bytes that are now taken; none when no free
  // range holds them. Neither may be zero.
  std::optional<std::uint64_t> take(std::uint64_t size, std::uint64_t alignment);
  // A range that was taken, whole.
  void give_back(std::uint64_t offset, std::uint64_t size);

  std::uint64_t capacity() const noexcept { return capacity_; }
  std::uint64_t used() const noexcept { return used_; }
  std::uint64_t largest_free() const noexcept;

 private:
  void add_free(std::uint64_t offset, std::uint64_t size);
  void remove_free(std::uint64_t offset, std::uint64_t size);

  std::uint64_t capacity_;
  std::uint64_t used_ = 0;
  std::map<std::uint64_t, std::uint64_t> free_;                     // offset to size
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_by_size_;  // the same: size, offset
};

}  // namespace headrace
