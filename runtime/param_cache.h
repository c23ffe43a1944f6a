// Leases: which units are held, where a held unit's parameters lie, and which unit comes next.
//
// Called with the engine's mutex held. With ParamHome::dram and hbm a lease is a view of memory
// that is always there. With streamed it is a slot on the device, filled when the unit is acquired,
// or before, when the unit followed the last acquired one the time before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/layout.h"
#include "runtime/shard.h"
#include "tiers/mover.h"

namespace headrace {

// A slot on the device that a streamed unit's parameters are copied to.
struct LeaseSlot {
  Extent memory;
  std::optional<UnitId> unit;  // whose parameters it holds, or will
  Event loaded;
  Event free;
  bool held = false;
  std::uint64_t used = 0;  // when it was last acquired, for choosing whom to evict
};

class ParamCache {
 public:
  ParamCache(ParamHome home, unsigned max_live, const ModelLayout& layout,
             const TensorTable& tensors);

  // What a slot on the device must hold: the largest unit, with its aliases' tensors.
  std::uint64_t slot_bytes() const;
  // streamed only: max_live + 1 of them, one to foresee with.
  void give_slots(std::vector<LeaseSlot> slots) { slots_ = std::move(slots); }

  struct Held {
    Event ready;
    std::size_t slot = 0;
  };
  // Code::unavailable when max_live leases are live, naming them; Code::invalid when there is no
  // such unit.
  Result<Held> acquire(UnitId unit, std::span<Shard> shards, const Region& params, Mover& mover);
  void release(UnitId unit, std::size_t slot, const Event& last_use, std::span<Shard> shards);
  // Where a tensor of a held unit lies. `base` is the parameters' memory: in DRAM, or its copy.
  ConstMemView view(UnitId unit, std::size_t slot, TensorId tensor, const MemView& base) const;

  bool holds(UnitId unit) const { return live_.contains(unit); }
  // "unit 3 (2 leases), unit 5"; empty when none is live.
  std::string holders() const;
  // Every lease that was released has let go, and every copy for one is over: what changes
  // parameters that have no shard waits for it.
  const Event& unused() const noexcept { return unused_; }
  // The same for their slots on the device: nothing reads what leases have shown.
  Event all_free() const;
  // A step or a write changes parameters: what was copied before is old.
  void forget();

 private:
  const UnitSpec* find(UnitId unit) const;
  bool in_unit(const UnitSpec& unit, TensorId tensor) const;
  std::size_t fill(const UnitSpec& unit, std::span<Shard> shards, const Region& params,
                   Mover& mover);
  std::size_t victim() const;
  void still_used(const UnitSpec& unit, const Event& last_use, std::span<Shard> shards);
  std::uint64_t alias_offset(const UnitSpec& unit, TensorId tensor) const;
  std::uint64_t bytes_of(const UnitSpec& unit) const;
  std::uint64_t param_bytes(TensorId tensor) const;

  const ParamHome home_;
  const unsigned max_live_;
  const ModelLayout& layout_;
  const TensorTable& tensors_;
  std::map<UnitId, unsigned> live_;
  std::map<UnitId, UnitId> follows_;
  std::optional<UnitId> last_;
  std::vector<LeaseSlot> slots_;
  Event unused_;
  std::uint64_t clock_ = 0;
};

}  // namespace headrace
