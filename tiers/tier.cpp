#include "tiers/tier.h"

#include <fmt/format.h>

#include <numeric>

#include "io/check.h"
#include "io/host_memory.h"

namespace headrace {
namespace {

constexpr Nanoseconds kGoodbye = std::chrono::seconds(10);

}  // namespace

struct Tier::Parts {
  TierKind kind;
  std::string name;
  std::uint64_t alignment;
  std::uint64_t capacity;
  Memory memory;
  Stripes stripes;
};

std::string_view name_of(TierKind kind) noexcept {
  switch (kind) {
    case TierKind::hbm:
      return "hbm";
    case TierKind::dram:
      return "dram";
    case TierKind::nvme:
      return "nvme";
  }
  return "tier";
}

Region Region::sub(std::uint64_t offset, std::uint64_t size) const {
  HEADRACE_CHECK(offset <= size_ && size <= size_ - offset);
  Region part = *this;
  part.offset_ += offset;
  part.size_ = size;
  return part;
}

MemView Region::view() const {
  if (tier_ == nullptr) return {};
  HEADRACE_CHECK(tier_->kind() != TierKind::nvme);
  return tier_->memory().sub(offset_, size_);
}

Tier& Region::tier() const {
  HEADRACE_CHECK(tier_ != nullptr);
  return *tier_;
}

Extent::~Extent() {
  if (region_.size() > 0) region_.tier().give_back(region_);
}

Tier::Tier(Platform& platform, Parts parts)
    : platform_(platform),
      kind_(parts.kind),
      name_(std::move(parts.name)),
      alignment_(parts.alignment),
      capacity_(parts.capacity),
      memory_(std::move(parts.memory)),
      stripes_(std::move(parts.stripes)),
      space_(capacity_) {}

Tier::~Tier() {
  HEADRACE_CHECK(used() == 0);
  const Event unregistered = unregister().over();
  if (!unregistered.done() && !platform_.wait(unregistered, kGoodbye).ok()) abandon();
}

Result<std::unique_ptr<Tier>> Tier::of_memory(Platform& platform, TierKind kind,
                                              std::uint64_t capacity, int numa_node) {
  Parts parts{kind, std::string(headrace::name_of(kind)), kPageBytes, 0, {}, {}};
  if (numa_node >= 0) parts.name += fmt::format("{}", numa_node);
  if (capacity > kMostTierBytes)
    return Status(Code::invalid,
                  fmt::format("tier {} of {} B: ask for less", parts.name, capacity));
  parts.capacity = round_up(capacity, kPageBytes);
  const Home home = kind == TierKind::hbm ? Home::device : Home::host;
  Result<Memory> memory = platform.device().allocate(home, parts.capacity, numa_node);
  if (!memory.ok()) return memory.status().with("tier " + parts.name);
  parts.memory = std::move(*memory);
  return std::unique_ptr<Tier>(new Tier(platform, std::move(parts)));
}

Result<std::unique_ptr<Tier>> Tier::hbm(Platform& platform, std::uint64_t capacity) {
  return of_memory(platform, TierKind::hbm, capacity, -1);
}

Result<std::unique_ptr<Tier>> Tier::dram(Platform& platform, std::uint64_t capacity,
                                         int numa_node) {
  return of_memory(platform, TierKind::dram, capacity, numa_node);
}

Result<std::unique_ptr<Tier>> Tier::nvme(Platform& platform,
                                         std::span<const std::filesystem::path> paths,
                                         std::uint64_t capacity, NvmeOptions options) {
  HEADRACE_ASSIGN(Stripes stripes, Stripes::open(platform, paths, capacity, options));
  Parts parts{TierKind::nvme, "nvme", stripes.alignment(), 0, {}, {}};
  parts.capacity = round_up(capacity, parts.alignment);
  parts.stripes = std::move(stripes);
  return std::unique_ptr<Tier>(new Tier(platform, std::move(parts)));
}

Result<Extent> Tier::allocate(std::uint64_t size) { return allocate_aligned(size, 1); }

Result<Extent> Tier::allocate_aligned(std::uint64_t size, std::uint64_t alignment) {
  HEADRACE_CHECK(alignment > 0 && alignment <= kHugePageBytes);
  if (size == 0) return Extent(Region(*this, 0, 0));
  const std::lock_guard lock(mutex_);
  if (size > capacity_) return full(size);
  const std::uint64_t step = std::lcm(alignment_, alignment);
  const std::uint64_t rounded = round_up(size, step);
  const std::optional<std::uint64_t> offset = space_.take(rounded, step);
  if (!offset) return full(rounded);
  return Extent(Region(*this, *offset, rounded));
}

Status Tier::full(std::uint64_t size) const {
  return Status(
      kind_ == TierKind::nvme ? Code::out_of_space : Code::out_of_memory,
      fmt::format("tier {}: {} asked, {} of {} used, the largest free piece is {}: raise its "
                  "capacity, or place less in it",
                  name_, format_bytes(size), format_bytes(space_.used()), format_bytes(capacity_),
                  format_bytes(space_.largest_free())));
}

void Tier::give_back(const Region& region) {
  const std::lock_guard lock(mutex_);
  space_.give_back(region.offset(), region.size());
}

std::uint64_t Tier::used() const {
  const std::lock_guard lock(mutex_);
  return space_.used();
}

Event Tier::register_with(IoQueue& queue) {
  HEADRACE_CHECK(kind_ == TierKind::dram);
  if (capacity_ == 0) return {};
  {
    const std::lock_guard lock(mutex_);
    registered_.push_back(&queue);
  }
  return queue.register_memory(memory().bytes());
}

Event Tier::unregister() {
  std::vector<IoQueue*> queues;
  {
    const std::lock_guard lock(mutex_);
    queues.swap(registered_);
  }
  std::vector<Event> ends;
  for (IoQueue* const queue : queues) ends.push_back(queue->unregister_memory(memory().bytes()));
  return Event::all(ends);
}

}  // namespace headrace
