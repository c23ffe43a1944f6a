#include "runtime/param_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/bytes.h"

namespace headrace {
namespace {

Event params_ready(const UnitSpec& unit, std::span<Shard> shards) {
  std::vector<Event> all;
  for (const std::uint32_t shard : unit.shards) all.push_back(shards[shard].param_ready);
  return Event::all(all);
}

constexpr std::uint64_t kTensorAlignment = 512;

}  // namespace

ParamCache::ParamCache(ParamHome home, unsigned max_live, const ModelLayout& layout,
                       const TensorTable& tensors)
    : home_(home), max_live_(max_live), layout_(layout), tensors_(tensors) {}

const UnitSpec* ParamCache::find(UnitId unit) const {
  const auto found = std::find_if(layout_.units.begin(), layout_.units.end(),
                                  [&](const UnitSpec& u) { return u.unit == unit; });
  return found == layout_.units.end() ? nullptr : &*found;
}

bool ParamCache::in_unit(const UnitSpec& unit, TensorId tensor) const {
  return std::find(unit.tensors.begin(), unit.tensors.end(), tensor) != unit.tensors.end();
}

std::uint64_t ParamCache::param_bytes(TensorId tensor) const {
  return tensors_[tensor].padded * size_of(tensors_[tensor].spec.param);
}

// In a slot on the device, the tensors that aliases mean lie behind the unit's own.
std::uint64_t ParamCache::alias_offset(const UnitSpec& unit, TensorId tensor) const {
  std::uint64_t at = unit.param_bytes;
  for (const TensorId id : unit.tensors) {
    if (id == tensor) break;
    if (tensors_[id].is_alias) at += round_up(param_bytes(id), kTensorAlignment);
  }
  return at;
}

std::uint64_t ParamCache::bytes_of(const UnitSpec& unit) const {
  std::uint64_t bytes = unit.param_bytes;
  for (const TensorId id : unit.tensors)
    if (tensors_[id].is_alias) bytes += round_up(param_bytes(id), kTensorAlignment);
  return bytes;
}

std::uint64_t ParamCache::slot_bytes() const {
  std::uint64_t most = 0;
  for (const UnitSpec& unit : layout_.units) most = std::max(most, bytes_of(unit));
  return most;
}

std::string ParamCache::holders() const {
  std::string text;
  for (const auto& [unit, count] : live_)
    text += fmt::format("{}unit {}{}", text.empty() ? "" : ", ", index_of(unit),
                        count > 1 ? fmt::format(" ({} leases)", count) : "");
  return text;
}

void ParamCache::still_used(const UnitSpec& unit, const Event& last_use, std::span<Shard> shards) {
  for (const std::uint32_t shard : unit.shards)
    shards[shard].param_unused = Event::all({shards[shard].param_unused, last_use.over()});
  unused_ = Event::all({unused_, last_use.over()});
}

std::size_t ParamCache::victim() const {
  std::size_t best = slots_.size();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].held) continue;
    const bool better = best == slots_.size() || (!slots_[i].unit && slots_[best].unit) ||
                        (slots_[i].unit.has_value() == slots_[best].unit.has_value() &&
                         slots_[i].used < slots_[best].used);
    if (better) best = i;
  }
  HEADRACE_CHECK(best < slots_.size());  // one slot more than leases
  return best;
}

// The slot that holds the unit, or will: copies it up if none does.
std::size_t ParamCache::fill(const UnitSpec& unit, std::span<Shard> shards, const Region& params,
                             Mover& mover) {
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].unit == unit.unit) return i;
  const std::size_t chosen = victim();
  LeaseSlot& slot = slots_[chosen];
  const Region to = slot.memory.region();
  const Event after = Event::all({slot.free, params_ready(unit, shards)});
  std::vector<Event> copies = {mover.move(params.sub(unit.param_offset, unit.param_bytes),
                                          to.sub(0, unit.param_bytes), after, {.name = "lease"})};
  for (const TensorId id : unit.tensors) {
    if (!tensors_[id].is_alias) continue;
    copies.push_back(mover.move(params.sub(layout_.param_offset[index_of(id)], param_bytes(id)),
                                to.sub(alias_offset(unit, id), param_bytes(id)), after,
                                {.name = "lease"}));
  }
  slot.unit = unit.unit;
  slot.loaded = Event::all(copies);
  slot.free = slot.loaded.over();
  still_used(unit, slot.loaded, shards);  // until the copy is over the update must wait
  return chosen;
}

Result<ParamCache::Held> ParamCache::acquire(UnitId unit, std::span<Shard> shards,
                                             const Region& params, Mover& mover) {
  const UnitSpec* const spec = find(unit);
  if (spec == nullptr)
    return Status(Code::invalid,
                  fmt::format("there is no unit {}: no tensor was added to it", index_of(unit)));
  unsigned live = 0;
  for (const auto& [held, count] : live_) live += count;
  if (live >= max_live_)
    return Status(Code::unavailable,
                  fmt::format("unit {} needs a lease and {} of {} are live ({}): release one, or "
                              "raise max_live_leases",
                              index_of(unit), live, max_live_, holders()));
  Held held{params_ready(*spec, shards), 0};
  const bool streamed = home_ == ParamHome::streamed && !slots_.empty();  // none: nothing to hold
  if (streamed) {
    held.slot = fill(*spec, shards, params, mover);
    slots_[held.slot].held = true;
    slots_[held.slot].used = ++clock_;
    held.ready = slots_[held.slot].loaded;
  }
  ++live_[unit];
  if (last_) follows_[*last_] = unit;
  last_ = unit;
  const auto next = follows_.find(unit);
  if (streamed && next != follows_.end() && next->second != unit)
    fill(*find(next->second), shards, params, mover);
  return held;
}

void ParamCache::release(UnitId unit, std::size_t slot, const Event& last_use,
                         std::span<Shard> shards) {
  const auto live = live_.find(unit);
  HEADRACE_CHECK(live != live_.end());
  if (home_ == ParamHome::streamed && !slots_.empty()) {
    slots_[slot].free = Event::all({slots_[slot].free, last_use.over()});
    slots_[slot].held = live->second > 1;
  } else {
    still_used(*find(unit), last_use, shards);
  }
  if (--live->second == 0) live_.erase(live);
}

ConstMemView ParamCache::view(UnitId unit, std::size_t slot, TensorId tensor,
                              const MemView& base) const {
  const UnitSpec* const spec = find(unit);
  if (spec == nullptr || !in_unit(*spec, tensor)) return {};
  const std::uint64_t size = tensors_[tensor].spec.count * size_of(tensors_[tensor].spec.param);
  if (size == 0) return {};
  const std::uint64_t home = layout_.param_offset[index_of(tensor)];
  if (home_ != ParamHome::streamed) return base.sub(home, size);
  const std::uint64_t at =
      tensors_[tensor].is_alias ? alias_offset(*spec, tensor) : home - spec->param_offset;
  return slots_[slot].memory.region().view().sub(at, size);
}

Event ParamCache::all_free() const {
  std::vector<Event> all = {unused_};
  for (const LeaseSlot& slot : slots_) all.push_back(slot.free);
  return Event::all(all);
}

void ParamCache::forget() {
  for (LeaseSlot& slot : slots_)
    if (!slot.held) slot.unit.reset();
}

}  // namespace headrace
