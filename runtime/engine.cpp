#include "runtime/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/checkpoint.h"
#include "runtime/checkpoint_format.h"
#include "runtime/close.h"
#include "runtime/parts.h"
#include "runtime/seal.h"
#include "runtime/state_access.h"
#include "runtime/step_call.h"

namespace headrace {
namespace {

Status check_choices(const EngineOptions& options) {
  if (options.format > StateFormat::split)
    return invalid(fmt::format("there is no format {}: take one of StateFormat",
                               static_cast<int>(options.format)));
  if (options.state > StateHome::nvme)
    return invalid(fmt::format("there is no StateHome {}: take automatic, dram, hbm or nvme",
                               static_cast<int>(options.state)));
  if (options.params > ParamHome::streamed)
    return invalid(fmt::format("there is no ParamHome {}: take dram, hbm or streamed",
                               static_cast<int>(options.params)));
  return {};
}

Status check_options(const EngineOptions& options) {
  HEADRACE_TRY(check_choices(options));
  if (options.slots < 2 || options.slots > 4096)
    return invalid(
        fmt::format("slots is {}: double buffering needs 2 or more, 4096 at most", options.slots));
  if (options.threads < 0 || options.threads > 4096)
    return invalid(fmt::format("threads is {}: 1 to 4096, or 0 for every CPU", options.threads));
  if (options.max_live_leases == 0) return invalid("max_live_leases is 0: 1 or more");
  if (options.deadline <= Nanoseconds(0))
    return invalid(fmt::format("the deadline is {} ns: it must be positive, 60 s is usual",
                               options.deadline.count()));
  if (options.state == StateHome::nvme && options.nvme_paths.empty())
    return invalid("state on NVMe needs a folder: give one in nvme_paths");
  if (options.durability == Durability::reusable && options.state != StateHome::nvme)
    return invalid(
        "durability is reusable, and state is not placed on NVMe: what lies in DRAM goes "
        "with the process; set state to nvme, or durability to scratch");
  if (!options.nvme_shares.empty() && options.nvme_shares.size() != options.nvme_paths.size())
    return invalid(fmt::format("nvme_shares has {} numbers for {} nvme_paths: give one for each",
                               options.nvme_shares.size(), options.nvme_paths.size()));
  const std::uint32_t alignment = options.nvme_alignment;
  if ((alignment & (alignment - 1)) != 0 || alignment > 2 * kMiB)
    return invalid(
        fmt::format("nvme_alignment is {}: a power of two up to 2 MiB, or 0", alignment));
  if (options.simd_target != 0) {
    for (const std::int64_t target : available_targets())
      if (target == options.simd_target) return {};
    return invalid(
        fmt::format("simd_target {} is not on this machine: take one of available_targets()",
                    options.simd_target));
  }
  return {};
}

// Over when `after` is, as that may use the memory until then.
Event refused(Status why, const Event& after) {
  return Event::all({Event::failed(std::move(why)), after.over()});
}

// The tensor itself, and the root whose state it uses.
struct Named {
  const Tensor* tensor;
  TensorId root;
};

Result<Named> find(const EngineParts& parts, TensorId id) {
  HEADRACE_ASSIGN(const Tensor* tensor, parts.tensors.find(id));
  return Named{tensor, tensor->root};
}

Status check_range(const Tensor& tensor, Kind kind, Range range, const ConstMemView& memory) {
  const TensorSpec& spec = tensor.spec;
  if (kind > Kind::param) return invalid(fmt::format("there is no kind {}", index_of(kind)));
  if (!spec.trainable && (kind == Kind::exp_avg || kind == Kind::exp_avg_sq))
    return invalid(fmt::format("\"{}\" is frozen: it has no {}", spec.name, name_of(kind)));
  if (range.begin > spec.count || range.count > spec.count - range.begin)
    return invalid(fmt::format("\"{}\" has {} elements: [{}, {} + {}) is outside", spec.name,
                               spec.count, range.begin, range.begin, range.count));
  const std::uint64_t size = range.count * element_bytes(tensor, kind);
  if (memory.home != Home::host)
    return invalid(fmt::format("\"{}\": device memory; give host memory", spec.name));
  if (memory.size != size)
    return invalid(fmt::format("\"{}\": {} elements of {} take {} bytes, {} were given", spec.name,
                               range.count, name_of(kind), size, memory.size));
  return {};
}

// Fills the first slots while gradients are still coming: the shards that the step updates first.
void fill_first_slots(EngineParts& parts) {
  StepContext context = parts.context();
  const std::span<Slot> slots = parts.step_slots();
  std::size_t used = 0;
  for (Shard& shard : parts.shards) {
    if (used == slots.size()) break;
    if (shard.in_place) continue;
    Slot& slot = slots[used++];
    if (slot.holds != Held{shard.id, shard.epoch}) load(shard, slot, context);
  }
  parts.filling = true;
}

Status check_gradient(const EngineParts& parts, const Named& named, const ConstMemView& gradient,
                      ScalarType type) {
  const TensorSpec& spec = named.tensor->spec;
  if (!spec.trainable)
    return invalid(fmt::format("\"{}\" is frozen: it takes no gradient", spec.name));
  if (type > ScalarType::fp16)
    return invalid(fmt::format("\"{}\": unknown gradient type", spec.name));
  if (gradient.home != Home::host)
    return invalid(fmt::format(
        "\"{}\": the gradient lies in device memory; copy it to host memory first", spec.name));
  if (gradient.size != spec.count * size_of(type))
    return invalid(fmt::format("\"{}\": a gradient of {} elements takes {} bytes, {} were given",
                               spec.name, spec.count, spec.count * size_of(type), gradient.size));
  const Gradient& kept = parts.gradients->of(named.root);
  if (kept.state == GradState::accumulating && kept.type != ScalarType::fp32)
    return invalid(fmt::format(
        "\"{}\" has a gradient already, and is kept in 16 bits: to add, set TensorSpec.grad to "
        "fp32",
        spec.name));
  return {};
}

}  // namespace

Engine::Engine(std::unique_ptr<EngineParts> parts) : parts_(std::move(parts)) {}

// In a forked child nothing of it can end, nor be given back.
Engine::~Engine() {
  const bool tried = parts_->phase == Phase::closing;
  const Status how = close(tried ? Nanoseconds(0) : parts_->options.deadline);
  if (!how.ok()) keep(std::move(parts_));
}

Result<std::unique_ptr<Engine>> Engine::open(Platform& platform, EngineOptions options) {
  HEADRACE_TRY(platform.check_process());
  HEADRACE_TRY(check_options(options));
  auto parts = std::make_unique<EngineParts>(platform, std::move(options));
  parts->owner = platform.new_owner();
  return std::unique_ptr<Engine>(new Engine(std::move(parts)));
}

Result<TensorId> Engine::add(TensorSpec spec) {
  HEADRACE_TRY(parts_->platform.check_process());
  const std::lock_guard lock(parts_->mutex);
  if (parts_->phase != Phase::building)
    return invalid(fmt::format("\"{}\" comes after seal(): add every tensor before", spec.name));
  return parts_->tensors.add(std::move(spec));
}

Status Engine::seal() {
  HEADRACE_TRY(parts_->platform.check_process());
  const std::lock_guard lock(parts_->mutex);
  if (parts_->phase != Phase::building) return invalid("seal() was called before");
  HEADRACE_TRY(headrace::seal(*parts_));
  parts_->phase = Phase::sealed;
  if (parts_->options.on_message)
    for (const std::string& message : parts_->platform.messages())
      parts_->options.on_message(message);
  return {};
}

Result<Lease> Engine::acquire(UnitId unit) {
  HEADRACE_TRY(parts_->platform.check_process());
  const std::lock_guard lock(parts_->mutex);
  HEADRACE_TRY(parts_->check_usable());
  HEADRACE_ASSIGN(
      const ParamCache::Held held,
      parts_->leases->acquire(unit, parts_->shards, parts_->param_memory.region(), *parts_->mover));
  Lease lease;
  lease.engine_ = this;
  lease.unit_ = unit;
  lease.slot_ = held.slot;
  lease.ready_ = held.ready;
  return lease;
}

Event Engine::put_grad(TensorId tensor, ConstMemView gradient, ScalarType type, Event after) {
  if (Status here = parts_->platform.check_process(); !here.ok()) return refused(here, after);
  const std::lock_guard lock(parts_->mutex);
  if (Status usable = parts_->check_usable(); !usable.ok()) return refused(usable, after);
  const Result<Named> named = find(*parts_, tensor);
  if (!named.ok()) return refused(named.status(), after);
  if (Status good = check_gradient(*parts_, *named, gradient, type); !good.ok())
    return refused(good, after);
  if (!parts_->filling) fill_first_slots(*parts_);
  std::vector<Event> before = {std::move(after)};
  for (const std::uint32_t shard : parts_->layout.shards_of[index_of(named->root)])
    before.push_back(parts_->shards[shard].param_ready.over());  // its update has read the last one
  return parts_->gradients->put(named->root, gradient, type, Event::all(before), *parts_->cpu,
                                parts_->owner, parts_->team);
}

Result<StepReport> Engine::step(const StepOptions& options) {
  HEADRACE_TRY(parts_->platform.check_process());
  return step_call(*parts_, options);
}

Status Engine::drop_gradients() {
  HEADRACE_TRY(parts_->platform.check_process());
  const std::lock_guard lock(parts_->mutex);
  HEADRACE_TRY(parts_->check_usable());
  parts_->gradients->clear();
  return {};
}

Status Engine::read(TensorId tensor, Kind kind, Range range, MemView to) {
  HEADRACE_TRY(parts_->platform.check_process());
  const Call call(*parts_);
  const Loan loan;
  Event done;
  {
    const std::lock_guard lock(parts_->mutex);
    HEADRACE_TRY(parts_->check_usable());
    HEADRACE_ASSIGN(const Named named, find(*parts_, tensor));
    HEADRACE_TRY(check_range(*named.tensor, kind, range, to));
    done = queue_read(*parts_, named.root, kind, range, to, loan);
  }
  return parts_->wait(done, loan);
}

Status Engine::write(TensorId tensor, Kind kind, Range range, ConstMemView from) {
  HEADRACE_TRY(parts_->platform.check_process());
  const Call call(*parts_);
  const Loan loan;
  Event done;
  {
    const std::lock_guard lock(parts_->mutex);
    HEADRACE_TRY(parts_->check_usable());
    HEADRACE_ASSIGN(const Named named, find(*parts_, tensor));
    HEADRACE_TRY(check_range(*named.tensor, kind, range, from));
    for (const UnitSpec& unit : parts_->layout.units)
      for (const TensorId id : unit.tensors)
        if (parts_->tensors[id].root == named.root && parts_->leases->holds(unit.unit))
          return invalid(
              fmt::format("\"{}\" is written while a lease of unit {} is live: release it",
                          named.tensor->spec.name, index_of(unit.unit)));
    done = queue_write(*parts_, named.root, kind, range, from, loan);
  }
  return parts_->wait(done, loan);
}

Result<std::uint64_t> Engine::steps_of(TensorId tensor) const {
  HEADRACE_TRY(parts_->platform.check_process());
  const std::lock_guard lock(parts_->mutex);
  HEADRACE_ASSIGN(const Named named, find(*parts_, tensor));
  if (parts_->phase != Phase::sealed) return invalid("steps are counted from seal() to close()");
  for (const std::uint32_t shard : parts_->layout.shards_of[index_of(named.root)])
    for (const Segment& segment : parts_->shards[shard].spec.segments)
      if (segment.tensor == named.root) return segment.step;
  return std::uint64_t{0};
}

Result<std::uint64_t> Engine::state_hash() {
  HEADRACE_TRY(parts_->platform.check_process());
  const Call call(*parts_);
  {
    const std::lock_guard lock(parts_->mutex);
    HEADRACE_TRY(parts_->check_usable());
  }
  StreamingChecksum hash;
  std::uint64_t most = 0;
  for (const Tensor& tensor : parts_->tensors.all()) most = std::max(most, tensor.spec.count);
  std::vector<float> values(std::min(kBlockElements, most));
  for (std::uint32_t i = 0; i < parts_->tensors.size(); ++i) {
    const Tensor& tensor = parts_->tensors.all()[i];
    if (tensor.is_alias || !tensor.spec.trainable) continue;
    for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq}) {
      for (std::uint64_t at = 0; at < tensor.spec.count; at += kBlockElements) {
        const std::uint64_t count = std::min(kBlockElements, tensor.spec.count - at);
        const std::span<float> part = std::span(values).first(count);
        HEADRACE_TRY(read(TensorId{i}, kind, {at, count}, view_of(part)));
        hash.update(std::as_bytes(part));
      }
    }
  }
  return hash.digest();
}

Status Engine::save(const std::filesystem::path& folder, ConstBytes extra) {
  HEADRACE_TRY(parts_->platform.check_process());
  return headrace::save(*parts_, folder, extra);
}

Result<std::vector<std::byte>> Engine::load(const std::filesystem::path& folder) {
  HEADRACE_TRY(parts_->platform.check_process());
  return headrace::load(*parts_, folder);
}

Status Engine::wait(const Event& event) {
  HEADRACE_TRY(parts_->platform.check_process());
  const Call call(*parts_);
  return parts_->wait(event);
}

Stats Engine::stats() const {
  return parts_->platform.check_process().ok() ? stats_of(*parts_) : Stats();
}

Status Engine::close(Nanoseconds timeout) {
  HEADRACE_TRY(parts_->platform.check_process());
  return headrace::close(*parts_, timeout);
}

Lease::Lease(Lease&& other) noexcept { *this = std::move(other); }

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  release();
  engine_ = std::exchange(other.engine_, nullptr);
  unit_ = other.unit_;
  slot_ = other.slot_;
  ready_ = std::exchange(other.ready_, {});
  return *this;
}

Lease::~Lease() { release(); }

ConstMemView Lease::param(TensorId tensor) const {
  if (engine_ == nullptr) return {};
  EngineParts& parts = *engine_->parts_;
  if (!parts.platform.check_process().ok()) return {};  // the memory is not in a fork
  const std::lock_guard lock(parts.mutex);
  if (parts.phase != Phase::sealed || index_of(tensor) >= parts.tensors.size()) return {};
  const Region base = parts.options.params == ParamHome::hbm ? parts.device_param_memory.region()
                                                             : parts.param_memory.region();
  return parts.leases->view(unit_, slot_, tensor, base.size() > 0 ? base.view() : MemView());
}

void Lease::release(Event last_use) {
  if (engine_ == nullptr) return;
  EngineParts& parts = *std::exchange(engine_, nullptr)->parts_;
  if (!parts.platform.check_process().ok()) return;
  const std::lock_guard lock(parts.mutex);
  if (parts.phase != Phase::sealed) return;
  parts.leases->release(unit_, slot_, last_use, parts.shards);
}

}  // namespace headrace
