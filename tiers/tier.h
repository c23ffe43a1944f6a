// Tier: an address space with a capacity: the device's memory, DRAM of one NUMA node, or a set of
// NVMe paths. Extent owns a range of it and gives it back; Region borrows one.
//
// Made by engines when they seal. A tier outlives its extents, and its platform outlives it; what
// moves (tiers/mover.h) is over before its range is given back. Calls may come from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "io/memory.h"
#include "io/platform.h"
#include "tiers/space_map.h"
#include "tiers/stripes.h"

namespace headrace {

enum class TierKind : std::uint8_t { hbm, dram, nvme };
constexpr std::size_t kTierKinds = 3;
constexpr std::uint64_t kMostTierBytes = std::uint64_t{1} << 60;

class Tier;

class Region {
 public:
  Region() = default;
  Region(Tier& tier, std::uint64_t offset, std::uint64_t size)
      : tier_(&tier), offset_(offset), size_(size) {}

  // [offset, offset + size) of this region, which must lie inside.
  Region sub(std::uint64_t offset, std::uint64_t size) const;
  // The bytes themselves: hbm and dram only.
  MemView view() const;

  Tier& tier() const;  // not of an empty Region
  std::uint64_t offset() const noexcept { return offset_; }
  std::uint64_t size() const noexcept { return size_; }
  bool operator==(const Region&) const = default;

 private:
  Tier* tier_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint64_t size_ = 0;
};

// Move-only; moved-from is empty.
class Extent {
 public:
  Extent() = default;
  Extent(Extent&& other) noexcept { std::swap(region_, other.region_); }
  Extent& operator=(Extent&& other) noexcept {
    Extent taken(std::move(other));
    std::swap(region_, taken.region_);
    return *this;
  }
  ~Extent();

  const Region& region() const noexcept { return region_; }

 private:
  friend class Tier;
  explicit Extent(Region region) : region_(region) {}
  Region region_;
};

class Tier {
 public:
  // One allocation of `capacity` bytes, rounded up to 4 KiB: Code::out_of_memory when the
  // platform's budget does not hold it.
  static Result<std::unique_ptr<Tier>> hbm(Platform& platform, std::uint64_t capacity);
  static Result<std::unique_ptr<Tier>> dram(Platform& platform, std::uint64_t capacity,
                                            int numa_node = -1);
  // Striped in shares over unnamed files in `paths` (tiers/stripes.h).
  static Result<std::unique_ptr<Tier>> nvme(Platform& platform,
                                            std::span<const std::filesystem::path> paths,
                                            std::uint64_t capacity, NvmeOptions options = {});
  // Unregisters its memory, waiting at most some seconds; abandons it when that does not end.
  ~Tier();
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;

  // `size` rounded up to alignment(): Code::out_of_memory (hbm, dram) or Code::out_of_space (nvme)
  // with the sum. Zero bytes is an empty Extent of this tier.
  Result<Extent> allocate(std::uint64_t size);
  // At an address, and of a size, that is a multiple of `alignment` (at most 2 MiB; for memory,
  // also at most the capacity) and of alignment(): slots take nvme's.
  Result<Extent> allocate_aligned(std::uint64_t size, std::uint64_t alignment);

  // dram: makes transfers of the queue from this memory cheaper where possible. A failed event says
  // why not, and is no harm. Undone by unregister(), or by the destructor.
  Event register_with(IoQueue& queue);
  Event unregister();
  // The memory is never given back: the kernel may still write there.
  void abandon() noexcept { memory_.abandon(); }

  TierKind kind() const noexcept { return kind_; }
  const std::string& name() const noexcept { return name_; }
  std::uint64_t capacity() const noexcept { return capacity_; }
  std::uint64_t used() const;
  std::uint64_t alignment() const noexcept { return alignment_; }
  bool direct() const noexcept { return stripes_.direct(); }

  const MemView& memory() const noexcept { return memory_.view(); }  // hbm, dram
  const Stripes& stripes() const noexcept { return stripes_; }       // nvme

 private:
  friend class Extent;
  struct Parts;
  Tier(Platform& platform, Parts parts);
  static Result<std::unique_ptr<Tier>> of_memory(Platform& platform, TierKind kind,
                                                 std::uint64_t capacity, int numa_node);
  void give_back(const Region& region);
  Status full(std::uint64_t size) const;  // mutex_ held

  Platform& platform_;
  const TierKind kind_;
  const std::string name_;
  const std::uint64_t alignment_;
  const std::uint64_t capacity_;
  Memory memory_;
  const Stripes stripes_;
  mutable std::mutex mutex_;
  SpaceMap space_;                    // guarded by mutex_
  std::vector<IoQueue*> registered_;  // guarded by mutex_
};

std::string_view name_of(TierKind kind) noexcept;  // "hbm", ...

}  // namespace headrace
