#include "io/faults.h"

namespace headrace {
namespace {

bool strikes(const Fault& fault, std::uint64_t number) {
  if (number < fault.first) return false;
  return number == fault.first || (fault.every != 0 && (number - fault.first) % fault.every == 0);
}

}  // namespace

void FaultScript::add(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  armed_.push_back({fault, fault.times});
}

void FaultScript::clear() {
  const std::lock_guard lock(mutex_);
  armed_.clear();
}

std::uint64_t FaultScript::struck() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

std::uint64_t FaultScript::seen(Direction direction) const {
  const std::lock_guard lock(mutex_);
  return seen_[static_cast<std::size_t>(direction)];
}

bool FaultScript::next(Direction direction, Fault& fault) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = seen_[static_cast<std::size_t>(direction)]++;
  for (Armed& armed : armed_) {
    if (armed.left == 0 || armed.fault.direction != direction || !strikes(armed.fault, number))
      continue;
    --armed.left;
    ++struck_;
    fault = armed.fault;
    return true;
  }
  return false;
}

}  // namespace headrace
