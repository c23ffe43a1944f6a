// Engine: the training state of one model (fp32 master weights, Adam moments, parameters,
// gradients), kept where it fits and brought where it is needed. The only object a user creates.
//
//   open -> add ... -> seal -> write (initial weights) -> { acquire, compute, put_grad ..., step }
//
// The step is lazy: step() waits for the global norm only and returns while the updates run; a
// Lease of a unit waits for that unit's parameters alone. Hence the rules: parameters are reached
// through leases; no lease is held over step(); a gradient's source stays untouched until
// put_grad's Event. read, write, save, load and close wait for the running step by themselves.
//
// Calls may come from any thread of the process that opened the engine; in a fork they are
// Code::invalid. Wrong arguments are Code::invalid and change nothing. Waits are
// bounded by EngineOptions::deadline; past it, and after a failed update, the engine is POISONED:
// read, write, save and step fail with the first reason, load and close still work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/event.h"
#include "io/memory.h"
#include "io/platform.h"
#include "io/status.h"
#include "runtime/kinds.h"
#include "runtime/options.h"
#include "runtime/stats.h"

namespace headrace {

struct EngineParts;
class Lease;

class Engine {
 public:
  // Checks the options; allocates nothing yet. The platform must outlive the engine.
  static Result<std::unique_ptr<Engine>> open(Platform& platform, EngineOptions options);
  ~Engine();  // close(), with the engine's deadline; at once when that has timed out before

  Result<TensorId> add(TensorSpec spec);
  // Plans, allocates, registers. Nothing is allocated after it. Code::out_of_memory or
  // out_of_space, with each term of the sum, when a budget cannot work; nothing was allocated then.
  Status seal();

  // The unit's parameters. Code::unavailable at once, naming the holders, when max_live_leases are
  // live. The unit that followed this one the last time is foreseen.
  Result<Lease> acquire(UnitId unit);

  // The gradient of a whole tensor, count elements of `type` in host memory: the first one since
  // the last step sets, later ones add (kept type fp32 only). Converts to the type kept.
  Event put_grad(TensorId tensor, ConstMemView gradient, ScalarType type, Event after = {});
  // Updates every tensor that has a gradient; the others do not move, decay or count.
  Result<StepReport> step(const StepOptions& options);
  // Drops the gradients put since the last step.
  Status drop_gradients();

  // Elements of `range`: fp32 for master and moments, the tensor's own type for param. Moments of
  // frozen tensors are Code::invalid; their master is the parameter. write(param) sets the master
  // to exactly that value, write(master) the parameter to its rounding. Not while a lease of the
  // unit is live (writes).
  Status read(TensorId tensor, Kind kind, Range range, MemView to);
  Status write(TensorId tensor, Kind kind, Range range, ConstMemView from);
  // How many updates a tensor has had.
  Result<std::uint64_t> steps_of(TensorId tensor) const;
  // XXH3-64 over fp32 master, exp_avg, exp_avg_sq of each trainable tensor, in order of add, in
  // element order, without padding or aliases.
  Result<std::uint64_t> state_hash();

  // The canonical checkpoint, atomically: the folder always holds one whole checkpoint, of one
  // moment of the call. `extra`: up to 1 MiB of the caller's own, which load gives back. Called on
  // a thread of its own, training goes on meanwhile: a step waits for shards that are not read yet,
  // and for nothing else. A failed save leaves the last checkpoint whole, and training may go on.
  // Code::locked: another save works in the folder, of this process or another one.
  Status save(const std::filesystem::path& folder, ConstBytes extra = {});
  // Verifies everything before it changes anything. Works from any placement, shard size and
  // format to any other. Gradients are dropped.
  Result<std::vector<std::byte>> load(const std::filesystem::path& folder);

  // Waits with the engine's deadline.
  Status wait(const Event& event);
  Stats stats() const;
  // Refuses new calls, cancels what has not started, waits for calls on other threads and drains
  // the rest. Leases must be gone. Code::timeout when something does not end in time: all that it
  // may touch stays, and close may be called again; an engine that goes then leaves it behind. Of a
  // reusable slab, what was queued is stored first, as far as half of the time goes.
  Status close(Nanoseconds timeout);

 private:
  friend class Lease;
  explicit Engine(std::unique_ptr<EngineParts> parts);
  std::unique_ptr<EngineParts> parts_;
};

// A unit's parameters, resident while the lease lives. Move-only; must not outlive its engine.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();  // release()

  UnitId unit() const noexcept { return unit_; }
  // The parameters hold their values. Fails if the update that makes them did.
  const Event& ready() const noexcept { return ready_; }
  // A tensor (or alias) of this unit, in its own type, contiguous; empty for any other tensor.
  ConstMemView param(TensorId tensor) const;
  // The memory is the engine's again when `last_use` is over.
  void release(Event last_use = {});

 private:
  friend class Engine;
  Engine* engine_ = nullptr;
  UnitId unit_{0};
  std::size_t slot_ = 0;  // where a streamed unit lies
  Event ready_;
};

}  // namespace headrace
