// EngineParts: all that an engine owns, for the files that work on it (engine, leases, state
// access, checkpoints, stats).
//
// Order of members is order of construction: tiers outlive the shards and slots that lie in them,
// the mover outlives neither. `mutex` guards everything below it and is held while queueing, never
// while waiting.
#pragma once

#include <condition_variable>
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "io/platform.h"
#include "runtime/gradients.h"
#include "runtime/layout.h"
#include "runtime/loan.h"
#include "runtime/options.h"
#include "runtime/param_cache.h"
#include "runtime/placement.h"
#include "runtime/shard.h"
#include "runtime/slab.h"
#include "runtime/stats.h"
#include "runtime/step.h"
#include "runtime/tensor_table.h"
#include "tiers/mover.h"
#include "tiers/tier.h"

namespace headrace {

enum class Phase : std::uint8_t { building, sealed, closing, closed };

// The tiers of one engine. Null: not in use.
struct EngineTiers {
  std::unique_ptr<Tier> slots, dram, hbm, nvme;  // state
  std::unique_ptr<Tier> params, device_params, gradients, staging, slab;
};

struct EngineParts {
  EngineParts(Platform& on, EngineOptions with) : platform(on), options(std::move(with)) {}

  // Fails unless sealed and not poisoned; notices a failed step.
  Status check_usable();
  // Fails when another thread has closed the engine: to be asked once a wait is over.
  Status check_open() const;
  // Remembers the first reason; gives it with Code::poisoned.
  Status poison(const Status& why);
  // Waits with the engine's deadline; past it the engine is poisoned. Without the mutex.
  Status wait(const Event& event);
  // The same; the loan ends with the wait.
  Status wait(const Event& event, const Loan& loan);
  // Drops what is queued on the platform's lanes. The event: none of it is there any more.
  Event cancel_lanes();
  // Of what lies on NVMe, as planned: a file system that needs more is refused.
  std::uint64_t nvme_alignment() const {
    return std::max<std::uint64_t>(4096, options.nvme_alignment);
  }
  StepContext context();
  // Ends what was queued as one change (a step, a write, a load), which is over when `pieces` are:
  // the event of all of it, with a reusable slab's record.
  Event changed(const Event& pieces);
  void each_shard(const std::function<void(Shard&)>& look);  // with those of frozen parameters
  void each_shard(const std::function<void(const Shard&)>& look) const;
  std::vector<unsigned> generations() const;
  std::byte* param_of(TensorId tensor) const;
  // Every change queued so far is over, well or not.
  Event all_settled() const;
  // While a save passes through the last slots (three of four or more), steps and writes use the
  // others.
  std::span<Slot> step_slots();
  std::span<Slot> save_slots();
  // Blocks, the mutex given up, until no call that must be alone is running.
  Status await_idle(std::unique_lock<std::mutex>& lock);

  Platform& platform;
  const EngineOptions options;
  // constant after seal
  TensorTable tensors;
  ModelLayout layout;
  Plan plan;
  Owner owner{};
  Team team;
  Lane* cpu = nullptr;
  EngineTiers tiers;
  Extent param_memory, device_param_memory, gradient_memory;
  std::unique_ptr<Mover> mover;

  mutable std::mutex mutex;
  Phase phase = Phase::building;
  std::condition_variable idle;  // notified when `busy` ends
  bool busy = false;             // a call that must be alone is waiting: step, load
  std::uint64_t calls = 0;       // that run, and may be waiting without the mutex
  std::condition_variable calls_ended;
  Status poisoned;
  std::vector<Shard> shards;
  std::vector<Shard> frozen;  // of a reusable slab: pieces of frozen parameters
  std::vector<Slot> slots;
  std::vector<Slot> staging;  // blocks of checkpoints: only memory, never hold a shard
  std::unique_ptr<Gradients> gradients;
  std::unique_ptr<ParamCache> leases;
  std::unique_ptr<Slab> slab;   // null: scratch
  Lane* checkpoints = nullptr;  // from the first save on
  Event saving;                 // the last save has read all of the state
  Event frozen_saved;           // and all that is frozen
  Event frozen_changed;         // no one is changing what is frozen
  std::vector<Event> changes;   // steps and writes whose end was not seen yet
  bool filling = false;         // the first slots were filled early for the next step
  std::uint64_t steps = 0;
  std::uint64_t skipped = 0;
};

// A call in progress, of those that wait: close() waits for it, and its parts stay meanwhile.
class Call {
 public:
  explicit Call(EngineParts& parts) : parts_(parts) {
    const std::lock_guard lock(parts.mutex);
    ++parts.calls;
  }
  ~Call() {
    const std::lock_guard lock(parts_.mutex);
    --parts_.calls;
    parts_.calls_ended.notify_all();  // under the mutex: then the parts may go
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  EngineParts& parts_;
};

Stats stats_of(const EngineParts& parts);

}  // namespace headrace
