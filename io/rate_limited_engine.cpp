// A disk of known speed around another engine.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "io/faults.h"
#include "io/wrapping_engine.h"

namespace headrace {
namespace {

// One server for reads and writes, first come, first served: what it costs to move a byte depends
// on the direction only. The latency comes on top, and keeps nobody else waiting.
class RateLimitedEngine final : public WrappingEngine {
 public:
  RateLimitedEngine(std::unique_ptr<IoEngine> inner, RateLimit limit, Clock* clock)
      : WrappingEngine(std::move(inner), clock), limit_(limit) {}

  std::string describe() const override {
    return fmt::format("{}, reads {}, writes {}", inner().describe(),
                       rate_text(limit_.read_bytes_per_second),
                       rate_text(limit_.write_bytes_per_second));
  }
  bool submit(const Transfer& transfer) override;

 private:
  static std::string rate_text(std::uint64_t bytes_per_second) {
    return bytes_per_second == 0 ? "unlimited" : format_bytes(bytes_per_second) + "/s";
  }
  Nanoseconds service_time(const Transfer& transfer) const;
  void completed(const Completion& completion) override;

  const RateLimit limit_;
  // touched only by the driver
  Nanoseconds free_at_{0};  // when the server has served all that was submitted
  std::unordered_multimap<std::uint64_t, Nanoseconds> ends_;  // of what is in flight, by token
};

Nanoseconds RateLimitedEngine::service_time(const Transfer& transfer) const {
  if (transfer.direction == Direction::sync) return Nanoseconds(0);
  const std::uint64_t rate = transfer.direction == Direction::read ? limit_.read_bytes_per_second
                                                                   : limit_.write_bytes_per_second;
  if (rate == 0) return Nanoseconds(0);
  const double seconds = static_cast<double>(transfer.size) / static_cast<double>(rate);
  return Nanoseconds(static_cast<std::int64_t>(seconds * 1e9 + 0.5));
}

bool RateLimitedEngine::submit(const Transfer& transfer) {
  if (!inner().submit(transfer)) return false;
  free_at_ = std::max(free_at_, now()) + service_time(transfer);
  ends_.emplace(transfer.token, free_at_ + limit_.latency);
  return true;
}

void RateLimitedEngine::completed(const Completion& completion) {
  const auto end = ends_.find(completion.token);
  HEADRACE_CHECK(end != ends_.end());
  hold(completion, end->second);
  ends_.erase(end);
}

}  // namespace

std::unique_ptr<IoEngine> rate_limited_engine(std::unique_ptr<IoEngine> inner, RateLimit limit,
                                              Clock* clock) {
  return std::make_unique<RateLimitedEngine>(std::move(inner), limit, clock);
}

}  // namespace headrace
