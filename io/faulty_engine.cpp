// An engine that fails as a script says, around another one that does the work.
//
// What never completes has moved in the inner engine all the same, so after stop() no memory is
// touched; stop() answers false, as it must, and at once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "io/faults.h"
#include "io/wrapping_engine.h"

namespace headrace {
namespace {

constexpr std::align_val_t kCopyAlignment{4096};  // fit for direct transfers

struct FreeCopy {
  void operator()(std::byte* copy) const noexcept { ::operator delete(copy, kCopyAlignment); }
};
using Copy = std::unique_ptr<std::byte, FreeCopy>;

void flip(std::byte* data, std::size_t size, std::uint64_t bit) {
  if (size == 0) return;
  data[bit / 8 % size] ^= std::byte(1U << bit % 8);
}

class FaultyEngine final : public WrappingEngine {
 public:
  FaultyEngine(std::unique_ptr<IoEngine> inner, std::shared_ptr<FaultScript> script, Clock* clock)
      : WrappingEngine(std::move(inner), clock), script_(std::move(script)) {}

  std::string describe() const override { return fmt::format("faulty {}", inner().describe()); }
  bool stop(Nanoseconds at_most) override {
    return WrappingEngine::stop(at_most) && never_complete_ == 0;
  }
  bool submit(const Transfer& transfer) override;

 private:
  struct Slot {
    Transfer transfer;
    std::optional<Fault> fault;
    Copy copy;  // what is written instead
  };

  std::optional<Fault> decide(Direction direction);
  bool pass_on(const Transfer& transfer, const std::optional<Fault>& fault);
  std::size_t take_slot();
  void completed(const Completion& completion) override;

  const std::shared_ptr<FaultScript> script_;
  // touched only by the driver
  std::vector<Slot> slots_;  // of what is in the inner engine; the index is its token there
  std::vector<std::size_t> free_;
  // By direction: made for a transfer that the inner engine was too full for; the next one's.
  std::array<std::optional<std::optional<Fault>>, 3> decided_;
  std::uint64_t never_complete_ = 0;
};

std::optional<Fault> FaultyEngine::decide(Direction direction) {
  auto& decided = decided_[static_cast<std::size_t>(direction)];
  if (decided) return *std::exchange(decided, std::nullopt);
  Fault fault;
  if (!script_->next(direction, fault)) return std::nullopt;
  return fault;
}

bool FaultyEngine::submit(const Transfer& transfer) {
  const std::optional<Fault> fault = decide(transfer.direction);
  const auto end_now = [&](std::int64_t result) {
    hold({transfer.token, result}, now());
    return true;
  };
  if (fault && fault->kind == FaultKind::error) return end_now(-fault->errno_value);
  if (fault && fault->kind == FaultKind::zero_progress) return end_now(0);
  if (fault && fault->kind == FaultKind::lost_write)
    return end_now(static_cast<std::int64_t>(transfer.size));
  if (pass_on(transfer, fault)) return true;
  decided_[static_cast<std::size_t>(transfer.direction)] = fault;
  return false;
}

std::size_t FaultyEngine::take_slot() {
  if (free_.empty()) {
    free_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const std::size_t number = free_.back();
  free_.pop_back();
  return number;
}

bool FaultyEngine::pass_on(const Transfer& transfer, const std::optional<Fault>& fault) {
  const std::size_t number = take_slot();
  Transfer changed = transfer;
  changed.token = number;
  Copy copy;
  if (fault && fault->kind == FaultKind::short_transfer)
    changed.size = std::min<std::uint64_t>(transfer.size, fault->amount);
  if (fault && fault->kind == FaultKind::bit_flip && transfer.direction == Direction::write) {
    copy.reset(static_cast<std::byte*>(::operator new(transfer.size, kCopyAlignment)));
    std::memcpy(copy.get(), transfer.data, transfer.size);
    flip(copy.get(), transfer.size, fault->amount);
    changed.data = copy.get();
  }
  if (!inner().submit(changed)) {
    free_.push_back(number);
    return false;
  }
  if (fault && fault->kind == FaultKind::never_completes) ++never_complete_;
  slots_[number] = {transfer, fault, std::move(copy)};
  return true;
}

void FaultyEngine::completed(const Completion& completion) {
  Slot& slot = slots_.at(completion.token);
  free_.push_back(completion.token);
  slot.copy.reset();
  const Transfer& transfer = slot.transfer;
  const auto struck_by = [&slot](FaultKind kind) { return slot.fault && slot.fault->kind == kind; };
  if (struck_by(FaultKind::never_completes)) return;
  if (struck_by(FaultKind::bit_flip) && transfer.direction == Direction::read &&
      completion.result > 0)
    flip(transfer.data, static_cast<std::size_t>(completion.result), slot.fault->amount);
  const Nanoseconds later = struck_by(FaultKind::delay) ? slot.fault->time : Nanoseconds(0);
  hold({transfer.token, completion.result}, deadline_after(now(), later));
}

}  // namespace

std::unique_ptr<IoEngine> faulty_engine(std::unique_ptr<IoEngine> inner,
                                        std::shared_ptr<FaultScript> script, Clock* clock) {
  return std::make_unique<FaultyEngine>(std::move(inner), std::move(script), clock);
}

}  // namespace headrace
