#include "runtime/parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/bytes.h"

namespace headrace {
namespace {

// "tiers: slots 1 MiB, ..."
std::string describe(const EngineTiers& tiers) {
  std::string text;
  const auto add = [&text](const char* name, const std::unique_ptr<Tier>& tier) {
    if (tier)
      text += fmt::format("{}{} {}", text.empty() ? "tiers: " : ", ", name,
                          format_bytes(tier->capacity()));
  };
  add("slots", tiers.slots);
  add("dram", tiers.dram);
  add("hbm", tiers.hbm);
  add("nvme", tiers.nvme);
  add("parameters", tiers.params);
  add("device parameters", tiers.device_params);
  add("gradients", tiers.gradients);
  add("checkpoint blocks", tiers.staging);
  add("commit records", tiers.slab);
  return text.empty() ? "no tiers" : text;
}

}  // namespace

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
  HEADRACE_TRY(check_open());
  if (busy) return Status(Code::invalid, "another call that must be alone is running: wait for it");
  std::erase_if(changes, [this](const Event& change) {
    if (!change.done()) return false;
    if (const Status how = change.status(); !how.ok()) static_cast<void>(poison(how));
    return true;
  });
  return poisoned;
}

Status EngineParts::check_open() const {
  return phase < Phase::closing ? Status() : Status(Code::invalid, "the engine is closed");
}

Event EngineParts::cancel_lanes() {
  return Event::all({cpu != nullptr ? cpu->cancel(owner) : Event(),
                     checkpoints != nullptr ? checkpoints->cancel(owner) : Event()});
}

Status EngineParts::wait(const Event& event) {
  Status how = platform.wait(event, options.deadline);
  if (how.code() != Code::timeout || event.done()) return how;
  const std::lock_guard lock(mutex);
  how = Status(Code::timeout, fmt::format("{}\n{}", how.message(), describe(tiers)));
  static_cast<void>(poison(how));
  static_cast<void>(cancel_lanes());  // what waits there must not hold up the other engines
  return how;
}

Status EngineParts::wait(const Event& event, const Loan& loan) {
  Status how = wait(event);
  loan.end();
  return how;
}

std::span<Slot> EngineParts::save_slots() {
  return std::span(slots).last(std::min<std::size_t>(slots.size(), slots.size() >= 4 ? 3 : 1));
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
