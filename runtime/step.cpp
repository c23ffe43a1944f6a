#include "runtime/step.h"

#include <algorithm>
#include <cstring>

#include "optim_cpu/adamw.h"

namespace headrace {
namespace {

// The shard's segments that have a gradient, as the kernel wants them; counts their step.
std::vector<AdamWRun> runs_of(Shard& shard, std::byte* state, const Gradients& gradients,
                              const StepScalars& scalars) {
  std::vector<AdamWRun> runs;
  const ShardSpec& spec = shard.spec;
  std::byte* const params = shard.host_param.view().data;
  for (Segment& segment : shard.spec.segments) {
    const Gradient& gradient = gradients.of(segment.tensor);
    if (gradient.state == GradState::empty) continue;
    ++segment.step;
    runs.push_back({
        .layout = spec.layout,
        .state = state_view(spec.layout, state, spec.elements, segment.shard_begin),
        .param = params + segment.shard_begin * size_of(spec.param),
        .param_type = spec.param,
        .grad = gradient.buffer.data + segment.tensor_begin * size_of(gradient.type),
        .grad_type = gradient.type,
        .count = segment.padded,
        .scalars = adamw_scalars(scalars.by_group[index_of(spec.group)], segment.step,
                                 scalars.grad_factor),
    });
  }
  return runs;
}

Event grad_ready(const Shard& shard, const Gradients& gradients) {
  std::vector<Event> all;
  for (const Segment& segment : shard.spec.segments) {
    const Event& ready = gradients.of(segment.tensor).ready;
    if (!ready.done() || !ready.status().ok()) all.push_back(ready);
  }
  return Event::all(all);
}

Task update(Shard& shard, std::byte* state, const Gradients& gradients, const StepScalars& scalars,
            const StepContext& context, bool yields) {
  return {.body =
              [runs = runs_of(shard, state, gradients, scalars), team = context.team] {
                adamw_update(runs, team);
                return Status();
              },
          .bytes = 2 * shard.spec.state_bytes + 2 * shard.spec.param_bytes,
          .name = "update",
          .owner = context.owner,
          .yields = yields};
}

// The parameters that only DRAM has else, behind the state in the slot.
Event add_params(const Shard& shard, const Slot& slot, const Event& changed,
                 const StepContext& context) {
  const std::uint64_t size = shard.kept_param_bytes;
  if (size == 0) return changed;
  std::byte* const to = slot.state.region().view().data + shard.param_at;
  const std::byte* const from = shard.host_param.view().data;
  return context.cpu.run({.body =
                              [to, from, size] {
                                std::memcpy(to, from, size);
                                return Status();
                              },
                          .bytes = size,
                          .name = "keep",
                          .owner = context.owner},
                         changed);
}

// Notes the checksums of a part of the slot. In one thread: it sums faster than a drive writes, and
// the queues need the other cores.
Event note_sums(const Shard& shard, const Region& part, std::uint64_t at, const Event& changed,
                const StepContext& context) {
  const ConstBytes bytes = part.view().bytes();  // a task may outlive the tier, not its memory
  return context.cpu.run({.body =
                              [sums = shard.home_sums(), bytes, at] {
                                sums->note(at, bytes);
                                return Status();
                              },
                          .bytes = part.size(),
                          .name = "checksum",
                          .owner = context.owner},
                         changed);
}

// From the slot to the shard's home. On NVMe each part goes as soon as its checksums are known.
Event send_home(const Shard& shard, const Slot& slot, const Event& changed, StepContext& context) {
  const MoveTag tag{.io_class = IoClass::write, .name = "store", .redo = context.change > 0};
  const Region home = shard.home();
  const Region record = slot.state.region().sub(0, home.size());
  if (!shard.home_sums()) return context.mover.move(record, home, changed, tag);
  const Event made = add_params(shard, slot, changed, context);
  const std::vector<BlockSums::Run> runs = shard.home_sums()->runs();
  std::vector<Event> ends;
  ends.reserve(1 + runs.size());
  ends.push_back(made);
  for (const BlockSums::Run& run : runs) {
    const Region part = record.sub(run.at, run.size);
    const Event noted = note_sums(shard, part, run.at, made, context);
    ends.push_back(context.mover.move(part, home.sub(run.at, run.size),
                                      Event::all({noted, context.committed}), tag));
  }
  return Event::all(ends);
}

// False too when the read that was to fill it has failed: it may be tried again.
bool holds(const Slot& slot, const Shard& shard) {
  const bool failed = slot.loaded.done() && !slot.loaded.status().ok();
  return slot.holds == Held{shard.id, shard.epoch} && !failed;
}

bool lies_in(std::span<const Slot> slots, const Shard& shard) {
  return std::ranges::any_of(
      slots, [&](const Slot& slot) { return holds(slot, shard) && slot.loaded.done(); });
}

// The slots, those first that hold what the first shards need: what was read during backward is
// used, whatever subset of the shards has a gradient.
std::vector<Slot*> in_order_of_use(std::span<Shard* const> shards, std::span<Slot> slots) {
  std::vector<Slot*> order;
  std::vector<Slot*> rest;
  for (Slot& slot : slots) rest.push_back(&slot);
  std::size_t next = 0;
  for (std::size_t s = 0; s < shards.size() && next < slots.size(); ++s) {
    if (shards[s]->in_place) continue;
    const auto holder = std::find_if(rest.begin() + static_cast<std::ptrdiff_t>(next), rest.end(),
                                     [&](const Slot* slot) { return holds(*slot, *shards[s]); });
    if (holder != rest.end())
      std::iter_swap(rest.begin() + static_cast<std::ptrdiff_t>(next), holder);
    ++next;
  }
  return rest;
}

}  // namespace

RegionCheck check_of(const Shard& shard, std::uint64_t begin) {
  if (!shard.home_sums()) return {};
  return [sums = shard.home_sums(), begin](std::uint64_t at, ConstBytes bytes) {
    return sums->check(begin + at, bytes);
  };
}

Event read_home(const Shard& shard, const BlockSums::Run& part, const Region& to,
                const Event& after, StepContext& context) {
  return context.mover.move(shard.home().sub(part.at, part.size), to, after,
                            {.io_class = IoClass::state_read,
                             .name = "load",
                             .check = check_of(shard, part.at),
                             .redo = context.change > 0});
}

void load(Shard& shard, Slot& slot, StepContext& context) {
  slot.holds = {shard.id, shard.epoch};  // the epoch: a slot filled early and left unused must not
                                         // pass for fresh
  slot.loaded = read_home(shard, {0, shard.param_at}, slot.state.region().sub(0, shard.param_at),
                          Event::all({slot.free, shard.settled}), context);
  slot.free = slot.loaded.over();
  shard.settled = Event::all({shard.settled, slot.free});  // a write must not overtake this read
}

void store(Shard& shard, Slot* slot, const Event& changed, StepContext& context) {
  const Event param = context.mover.move(shard.host_param, shard.param, changed, {.name = "param"});
  Event stored = changed;
  if (slot != nullptr) {
    if (context.change != shard.changed_in) shard.generation ^= 1;  // never what a commit names
    shard.changed_in = context.change;
    stored = send_home(shard, *slot, changed, context);
    slot->holds.reset();
    slot->free = stored.over();
  }
  shard.param_ready = param;
  shard.settled = Event::all({param, stored});
  ++shard.epoch;
}

Slot& slot_of(Shard& shard, std::span<Slot> slots, StepContext& context) {
  const auto holder = std::find_if(slots.begin(), slots.end(),
                                   [&](const Slot& slot) { return holds(slot, shard); });
  if (holder != slots.end()) return *holder;
  Slot& slot = slots[shard.id % slots.size()];
  load(shard, slot, context);
  return slot;
}

// Lanes keep to their own order; this one is what it will be like, since copies to a device are
// made in it. By turns at first: as what lies in a slot is on its way to its drive, the next in
// place is updated; then as many in place as are updated while one is moved.
std::vector<Shard*> order_of_update(std::span<Shard* const> shards, std::span<const Slot> slots) {
  constexpr std::size_t kInPlacePerMoved = 8;  // 24 bytes at a drive's rate, 28 at that of DRAM
  std::vector<Shard*> order;
  std::vector<Shard*> in_place;
  std::vector<Shard*> there;
  std::vector<Shard*> moved;
  for (Shard* shard : shards)
    (shard->in_place ? in_place : lies_in(slots, *shard) ? there : moved).push_back(shard);
  auto next = in_place.begin();
  const auto take_in_place = [&](std::size_t count) {
    for (; count > 0 && next != in_place.end(); --count) order.push_back(*next++);
  };
  for (Shard* shard : there) {
    take_in_place(1);
    order.push_back(shard);
  }
  take_in_place(slots.size() - there.size());
  for (Shard* shard : moved) {
    take_in_place(kInPlacePerMoved);
    order.push_back(shard);
  }
  take_in_place(in_place.size());
  return order;
}

Event update_all(std::span<Shard* const> shards, std::span<Slot> slots, Gradients& gradients,
                 const StepScalars& scalars, StepContext& context) {
  const std::vector<Slot*> order = in_order_of_use(shards, slots);
  std::vector<Event> ends;
  std::size_t k = 0;
  std::size_t in_place = 0;
  for (Shard* shard : shards) {
    Slot* const slot = shard->in_place ? nullptr : order[k++ % order.size()];
    if (slot != nullptr && !holds(*slot, *shard)) load(*shard, *slot, context);
    const Event there =
        slot != nullptr ? Event::all({slot->loaded, shard->settled}) : shard->settled;
    std::byte* const state = (slot != nullptr ? slot->state : shard->state).region().view().data;
    const bool yields = shard->in_place && in_place++ >= slots.size();
    const Event updated =
        context.cpu.run(update(*shard, state, gradients, scalars, context, yields),
                        Event::all({there, grad_ready(*shard, gradients), shard->param_unused}));
    store(*shard, slot, updated, context);
    ends.push_back(shard->settled);
  }
  return Event::all(ends);
}

}  // namespace headrace
