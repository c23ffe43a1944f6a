#include "runtime/close.h"

#include <fmt/format.h>

namespace headrace {
namespace {

// All that the engine has queued is over, well or not; what has not started never starts.
Event cancel_all(EngineParts& parts) {
  if (!parts.mover) return {};
  const Event lanes = parts.cancel_lanes();
  parts.mover->cancel();
  const Event unused = parts.leases ? parts.leases->all_free() : Event();
  return Event::all({parts.all_settled(), unused, lanes}).over();
}

void say_leases(const EngineParts& parts) {
  if (!parts.leases) return;
  if (const std::string holders = parts.leases->holders(); !holders.empty())
    parts.platform.say(fmt::format("an engine is closed with leases live ({})", holders));
}

// What a reusable slab has queued is worth having: the next engine takes it up.
void finish_step(EngineParts& parts, std::unique_lock<std::mutex>& lock, Nanoseconds timeout) {
  if (!parts.slab) return;
  const Event stored = parts.all_settled().over();
  lock.unlock();
  static_cast<void>(parts.platform.wait(stored, timeout));
  lock.lock();
}

// Until no other call runs, not even another close. On a simulated platform one thread does all, so
// there is nobody to wait for.
Status await_calls(EngineParts& parts, std::unique_lock<std::mutex>& lock, Nanoseconds timeout) {
  if (parts.platform.simulated()) timeout = Nanoseconds(0);
  const auto alone = [&parts] { return parts.calls == 0; };
  const Nanoseconds deadline = deadline_after(Clock().now(), timeout);
  if (parts.calls_ended.wait_until(lock, std::chrono::steady_clock::time_point(deadline), alone))
    return {};
  return Status(Code::timeout, fmt::format("{} of the engine's calls still run on other threads: "
                                           "wait for them, and close again",
                                           parts.calls));
}

// Nothing uses it any more. The tiers go last, and without the mutex, as they may have to wait.
[[nodiscard]] EngineTiers let_go(EngineParts& parts) {
  parts.leases.reset();
  parts.gradients.reset();
  parts.slab.reset();
  parts.shards.clear();
  parts.frozen.clear();
  parts.slots.clear();
  parts.staging.clear();
  parts.mover.reset();
  parts.param_memory = {};
  parts.device_param_memory = {};
  parts.gradient_memory = {};
  return std::exchange(parts.tiers, {});
}

// Once no call runs, nothing is queued any more.
Status tear_down(EngineParts& parts, std::unique_lock<std::mutex>& lock, Nanoseconds timeout) {
  const Event quiet = cancel_all(parts);
  lock.unlock();
  const Status how = parts.platform.wait(quiet, timeout);
  lock.lock();
  if (!quiet.done()) return how;
  {
    const EngineTiers tiers = let_go(parts);
    lock.unlock();
  }
  lock.lock();
  parts.phase = Phase::closed;
  return {};
}

}  // namespace

void undo_seal(EngineParts& parts) {
  const Event quiet = cancel_all(parts);
  static_cast<void>(parts.platform.wait(quiet, parts.options.deadline));
  if (quiet.done())
    static_cast<void>(let_go(parts));
  else
    parts.phase = Phase::closing;
}

Status close(EngineParts& parts, Nanoseconds timeout) {
  const Nanoseconds deadline = deadline_after(parts.platform.clock().now(), timeout);
  std::unique_lock lock(parts.mutex);
  if (parts.phase == Phase::closed) return {};
  if (parts.phase != Phase::closing) say_leases(parts);
  parts.phase = Phase::closing;
  finish_step(parts, lock, timeout / 2);
  static_cast<void>(cancel_all(parts));  // so that the calls end
  HEADRACE_TRY(await_calls(parts, lock, timeout));
  if (parts.phase == Phase::closed) return {};  // by another thread, meanwhile
  ++parts.calls;                                // another close waits for this one
  const Nanoseconds left = deadline - parts.platform.clock().now();
  const Status how = tear_down(parts, lock, std::max(Nanoseconds(0), left));
  --parts.calls;
  parts.calls_ended.notify_all();
  return how;
}

void keep(std::unique_ptr<EngineParts> parts) {
  if (parts->platform.check_process().ok()) {
    const std::lock_guard lock(parts->mutex);
    if (parts->calls == 0) parts->mover.reset();  // its threads must be gone before the platform is
  }
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<EngineParts>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(parts));
}

}  // namespace headrace
