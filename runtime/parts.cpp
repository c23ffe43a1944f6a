#include "runtime/parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace headrace {

Status EngineParts::poison(const Status& why) {
  if (poisoned.ok())
    poisoned =
        Status(Code::poisoned, fmt::format("the engine stopped after a failure ({}): load the last "
                                           "checkpoint, or open a new engine",
                                           why.to_string()));
  return poisoned;
}

Status EngineParts::check_usable() {
  if (phase == Phase::building)
    return Status(Code::invalid, "the engine is not sealed: call seal() first");
  if (phase == Phase::closed) return Status(Code::invalid, "the engine is closed");
  if (busy) return Status(Code::invalid, "another call that must be alone is running: wait for it");
  std::erase_if(changes, [this](const Event& change) {
    if (!change.done()) return false;
    if (const Status how = change.status(); !how.ok()) static_cast<void>(poison(how));
    return true;
  });
  return poisoned;
}

Status EngineParts::wait(const Event& event) {
  Status how = platform.wait(event, options.deadline);
  if (how.code() == Code::timeout && !event.done()) {
    const std::lock_guard lock(mutex);
    static_cast<void>(poison(how));
  }
  return how;
}

Status EngineParts::wait(const Event& event, const Loan& loan) {
  Status how = wait(event);
  loan.end();
  return how;
}

std::span<Slot> EngineParts::save_slots() {
  return std::span(slots).last(std::min<std::size_t>(slots.size(), slots.size() >= 4 ? 2 : 1));
}

std::span<Slot> EngineParts::step_slots() {
  const std::size_t rest = slots.size() - save_slots().size();
  return rest == 0 || saving.done() ? std::span(slots) : std::span(slots).first(rest);
}

Status EngineParts::await_idle(std::unique_lock<std::mutex>& lock) {
  constexpr Nanoseconds kMost = std::chrono::hours(24 * 365);  // what a clock can be added to
  if (idle.wait_for(lock, std::min(options.deadline, kMost), [this] { return !busy; })) return {};
  return Status(Code::timeout,
                "another call that must be alone did not end before the engine's deadline");
}

std::byte* EngineParts::param_of(TensorId tensor) const {
  return param_memory.region().view().data + layout.param_offset[index_of(tensor)];
}

StepContext EngineParts::context() {
  StepContext context{*mover, *cpu, owner, team};
  if (slab) context.change = slab->change();
  if (slab) context.committed = slab->committed();
  return context;
}

Event EngineParts::changed(const Event& pieces) {
  changes.push_back(slab ? Event::all({pieces, slab->commit(*this, pieces)}) : pieces);
  return changes.back();
}

void EngineParts::each_shard(const std::function<void(Shard&)>& look) {
  for (Shard& shard : shards) look(shard);
  for (Shard& shard : frozen) look(shard);
}

void EngineParts::each_shard(const std::function<void(const Shard&)>& look) const {
  for (const Shard& shard : shards) look(shard);
  for (const Shard& shard : frozen) look(shard);
}

std::vector<unsigned> EngineParts::generations() const {
  std::vector<unsigned> all;
  each_shard([&](const Shard& shard) { all.push_back(shard.generation); });
  return all;
}

Event EngineParts::all_settled() const {
  std::vector<Event> all;
  each_shard([&](const Shard& shard) { all.push_back(shard.settled); });
  if (slab) all.push_back(slab->committed());
  for (const Slot& slot : slots) all.push_back(slot.free);
  for (const Slot& block : staging) all.push_back(block.free);
  return Event::all(all);
}

}  // namespace headrace
