// CopyPaths: three kinds of memory with random bytes in them, and moves of all of these bytes from
// one to the other in pieces: headrace's moves, or plain memcpy for the bound.
//
// Every move takes the bytes that its target does not hold yet, so that verify() finds each piece
// that did not arrive. From one thread; the platform must outlive the object.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "io/host_memory.h"
#include "io/platform.h"
#include "tiers/mover.h"
#include "tiers/tier.h"

namespace headrace::bench {

enum class Place : std::uint8_t { host, device, nvme };

struct Path {
  Place from;
  Place to;
};

class CopyPaths {
 public:
  // Two sources and a target of `bytes` in each kind of memory, slots for pieces of up to
  // `largest`, a plain source and target in place of the device's memory, which only its streams
  // can touch. With an empty folder there is no nvme. Fails as tiers do.
  static Result<std::unique_ptr<CopyPaths>> open(Platform& platform, std::uint64_t bytes,
                                                 std::uint64_t largest,
                                                 const std::filesystem::path& folder);
  ~CopyPaths();
  CopyPaths(const CopyPaths&) = delete;
  CopyPaths& operator=(const CopyPaths&) = delete;

  // Seconds from when the first piece of any path may start, everything being queued, to the end of
  // the last. Between nvme and the device a piece is two moves and a slot. The paths have different
  // targets.
  Result<double> move(std::span<const Path> paths, std::uint64_t piece);
  // The same bytes by a loop of memcpy, one thread for each path; nvme is not among them.
  double plain(std::span<const Path> paths, std::uint64_t piece);
  // From host to host by memcpy on all cores.
  double plain_team(int threads);

  // `corrupt` unless the target holds every byte of what was moved there last.
  Status verify(Place target);

 private:
  static constexpr std::size_t kSources = 2;
  struct Area {
    std::unique_ptr<Tier> tier;
    Extent extent;
    std::array<Region, kSources> sources;
    Region target;
    std::size_t held = 0;  // the source whose bytes the target has; at first neither
  };

  CopyPaths(Platform& platform, std::uint64_t bytes);
  Status make(Place place, Result<std::unique_ptr<Tier>> tier);
  Status make_slots(std::uint64_t largest, const std::filesystem::path& folder);
  Status make_plain();
  Status fill();
  Area& at(Place place) { return areas_[static_cast<std::size_t>(place)]; }
  const Region& next_source(const Path& path);
  void queue(const Path& path, std::uint64_t piece, const Event& start, std::vector<Event>& ends);
  ConstBytes plain_source(Place place, std::size_t index);
  Bytes plain_target(Place place, std::size_t index);
  Status wait(const Event& event);

  Platform& platform_;
  const std::uint64_t bytes_;
  std::array<Area, 3> areas_;
  std::unique_ptr<Tier> slots_;
  Extent slot_extent_;
  std::size_t plain_turn_ = 0;
  HiddenPages plain_device_;  // laid out as the device's area, which pages can matter to
  Mover mover_;               // gone first: it may still be at work
};

}  // namespace headrace::bench
