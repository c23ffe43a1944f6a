#include "runtime/step_call.h"

#include <fmt/format.h>

#include <cmath>

namespace headrace {
namespace {

bool in_unit_interval(double value) { return value >= 0 && value < 1; }  // false for NaN

Status check_group(const AdamW& group, std::size_t number) {
  if (!std::isfinite(group.lr) || group.lr < 0)
    return invalid(
        fmt::format("group {}: lr is {}: it must be finite and not negative", number, group.lr));
  if (!in_unit_interval(group.beta1) || !in_unit_interval(group.beta2))
    return invalid(fmt::format("group {}: betas are {} and {}: both must be in [0, 1)", number,
                               group.beta1, group.beta2));
  if (!std::isfinite(group.eps) || group.eps < 0)
    return invalid(
        fmt::format("group {}: eps is {}: it must be finite and not negative", number, group.eps));
  if (!std::isfinite(group.weight_decay) || group.weight_decay < 0)
    return invalid(fmt::format("group {}: weight_decay is {}: it must be finite and not negative",
                               number, group.weight_decay));
  return {};
}

Status check(EngineParts& parts, const StepOptions& options) {
  HEADRACE_TRY(parts.check_usable());
  if (const std::string holders = parts.leases->holders(); !holders.empty())
    return invalid(fmt::format(
        "leases are held over step() ({}): release them after their last use", holders));
  if (options.by_group.size() < parts.tensors.groups())
    return invalid(
        fmt::format("by_group has {} entries, the tensors use {} groups: give one for each",
                    options.by_group.size(), parts.tensors.groups()));
  for (std::size_t g = 0; g < options.by_group.size(); ++g)
    HEADRACE_TRY(check_group(options.by_group[g], g));
  if (!std::isfinite(options.max_norm) || options.max_norm < 0)
    return invalid(
        fmt::format("max_norm is {}: a positive norm, or 0 for no clipping", options.max_norm));
  if (!std::isfinite(options.grad_scale) || options.grad_scale <= 0)
    return invalid(
        fmt::format("grad_scale is {}: it must be positive and finite", options.grad_scale));
  return {};
}

// As torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
double clip_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

// Judges the gradients, which are all in. False: the step is skipped.
bool judge(const EngineParts& parts, const StepOptions& options, StepReport& report) {
  const GlobalNorm global = parts.gradients->norm();
  report.grad_norm = global.norm / options.grad_scale;
  report.bad_tensor = global.bad_tensor;
  report.bad_index = global.bad_index;
  if (global.bad_tensor && options.skip_non_finite) {
    report.why = fmt::format("the gradient of \"{}\" is not finite at element {}",
                             parts.tensors[*global.bad_tensor].spec.name, global.bad_index);
    return false;
  }
  report.clip_factor = clip_factor(report.grad_norm, options.max_norm);
  return true;
}

std::vector<Shard*> shards_with_gradient(EngineParts& parts) {
  std::vector<Shard*> shards;
  for (Shard& shard : parts.shards)
    for (const Segment& segment : shard.spec.segments)
      if (parts.gradients->of(segment.tensor).state != GradState::empty) {
        shards.push_back(&shard);
        break;
      }
  return shards;
}

void apply(EngineParts& parts, const StepOptions& options, StepReport& report) {
  StepContext context = parts.context();
  const StepScalars scalars{options.by_group, report.clip_factor / options.grad_scale};
  const std::vector<Shard*> shards = shards_with_gradient(parts);
  const std::span<Slot> slots = parts.step_slots();
  const Event updated =
      update_all(order_of_update(shards, slots), slots, *parts.gradients, scalars, context);
  ++parts.steps;
  report.done = parts.changed(updated);
  report.applied = true;
  parts.leases->forget();
  parts.filling = false;
}

// The wait, without the mutex; everybody else is refused meanwhile.
Status await_gradients(EngineParts& parts, std::unique_lock<std::mutex>& lock) {
  const Event ready = parts.gradients->ready();
  parts.busy = true;
  lock.unlock();
  const Status how = parts.wait(ready);
  lock.lock();
  parts.busy = false;
  parts.idle.notify_all();
  HEADRACE_TRY(parts.check_open());
  return how;
}

}  // namespace

Result<StepReport> step_call(EngineParts& parts, const StepOptions& options) {
  const Call call(parts);
  std::unique_lock lock(parts.mutex);
  HEADRACE_TRY(check(parts, options));
  StepReport report;
  bool apply_it = true;
  if (parts.gradients->present().empty()) {
    report.why = "no gradient was put since the last step";
    return report;
  }
  if (options.max_norm > 0 || options.skip_non_finite) {
    const Status ready = await_gradients(parts, lock);
    if (!ready.ok()) parts.gradients->clear();  // what a failed one left behind is not known
    HEADRACE_TRY(ready.with("a gradient did not arrive"));
    apply_it = judge(parts, options, report);
  }
  if (apply_it) apply(parts, options, report);
  if (!apply_it) ++parts.skipped;
  parts.gradients->clear();
  return report;
}

}  // namespace headrace
