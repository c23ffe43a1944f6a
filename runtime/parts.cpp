#include "runtime/parts.h"

#include <fmt/format.h>

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

std::byte* EngineParts::param_of(TensorId tensor) const {
  return param_memory.region().view().data + layout.param_offset[index_of(tensor)];
}

Event EngineParts::all_settled() const {
  std::vector<Event> all;
  for (const Shard& shard : shards) all.push_back(shard.settled);
  for (const Slot& slot : slots) all.push_back(slot.free);
  for (const Slot& block : staging) all.push_back(block.free);
  return Event::all(all);
}

}  // namespace headrace
