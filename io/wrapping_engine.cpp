#include "io/wrapping_engine.h"

#include <algorithm>
#include <functional>

namespace headrace {

void WrappingEngine::hold(const Completion& completion, Nanoseconds due) {
  held_.push_back({due, next_order_++, completion});
  std::ranges::push_heap(held_, std::greater<>());
}

Nanoseconds WrappingEngine::next_due() const {
  return held_.empty() ? kForever : held_.front().due;
}

Nanoseconds WrappingEngine::due() const { return std::min(inner_->due(), next_due()); }

bool WrappingEngine::hand_out(std::vector<Completion>& completions) {
  const std::size_t before = completions.size();
  while (next_due() <= now()) {
    std::ranges::pop_heap(held_, std::greater<>());
    completions.push_back(held_.back().completion);
    held_.pop_back();
  }
  return completions.size() > before;
}

void WrappingEngine::wait(std::vector<Completion>& completions, Nanoseconds at_most) {
  if (hand_out(completions)) at_most = Nanoseconds(0);
  if (!held_.empty()) at_most = std::min(at_most, std::max(next_due() - now(), Nanoseconds(0)));
  from_inner_.clear();
  inner_->wait(from_inner_, at_most);
  for (const Completion& completion : from_inner_) completed(completion);
  hand_out(completions);
}

}  // namespace headrace
