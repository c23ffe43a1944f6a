#include "tests/simulation/drive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

namespace headrace::simulation {
namespace {

constexpr std::uint64_t kLeastAlignment = 4096;  // a shorter transfer may be no progress

const char* name_of(FaultKind kind) {
  constexpr const char* kNames[] = {"error",           "short",    "zero progress", "delay",
                                    "never completes", "bit flip", "lost write"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool is_refusal(int error) { return error == EINTR || error == EAGAIN || error == ECANCELED; }

class Drive : public IoEngine {
 public:
  Drive(std::unique_ptr<IoEngine> disk, Clock& clock, std::shared_ptr<Trouble> trouble)
      : inner_(faulty_engine(std::move(disk), script_, &clock)), trouble_(std::move(trouble)) {}

  std::string describe() const override { return inner_->describe(); }
  Status start(int wake_fd) override { return inner_->start(wake_fd); }
  // Nothing moves behind the back of a simulated process: what never completed may be let go.
  bool stop(Nanoseconds at_most) override {
    static_cast<void>(inner_->stop(at_most));
    return true;
  }

  bool submit(const Transfer& transfer) override {
    if (trouble_->crashes_now()) {
      in_flight_.insert(transfer.token);
      return true;
    }
    if (std::optional<Fault> fault = trouble_->next(kinds_[transfer.handle], transfer.direction)) {
      fault->first = script_->seen(transfer.direction);
      fault->every = 0;
      fault->times = 1;
      script_->add(*fault);
    }
    HEADRACE_CHECK(inner_->submit(transfer));  // a simulated disk is never full
    in_flight_.insert(transfer.token);
    return true;
  }

  void wait(std::vector<Completion>& completions, Nanoseconds at_most) override {
    if (trouble_->crashed()) {
      for (const std::uint64_t token : in_flight_) completions.push_back({token, -EIO});
      in_flight_.clear();
      return;
    }
    const std::size_t before = completions.size();
    inner_->wait(completions, at_most);
    for (std::size_t i = before; i < completions.size(); ++i)
      in_flight_.erase(completions[i].token);
  }

  Nanoseconds due() const override {
    if (trouble_->crashed()) return in_flight_.empty() ? kForever : Nanoseconds(0);
    return inner_->due();
  }

  Status register_memory(Bytes memory) override { return inner_->register_memory(memory); }
  void unregister_memory(Bytes memory) override { inner_->unregister_memory(memory); }

  Result<OpenFile> open_file(const FileSpec& spec) override {
    if (trouble_->crashes_now()) return gone();
    HEADRACE_ASSIGN(const OpenFile open, inner_->open_file(spec));
    const bool state = spec.mode == FileMode::scratch || spec.mode == FileMode::exclusive;
    kinds_[open.handle] = state ? FileKind::state : FileKind::checkpoint;
    return open;
  }
  void close_file(const OpenFile& file) override { inner_->close_file(file); }
  Status make_folder(const std::filesystem::path& folder) override {
    return trouble_->crashes_now() ? gone() : inner_->make_folder(folder);
  }
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return trouble_->crashes_now() ? gone() : inner_->rename(from, to);
  }
  Status sync_folder(const std::filesystem::path& folder) override {
    return trouble_->crashes_now() ? gone() : inner_->sync_folder(folder);
  }
  Status remove(const std::filesystem::path& path) override {
    return trouble_->crashes_now() ? gone() : inner_->remove(path);
  }
  Result<Entry> look(const std::filesystem::path& path) override {
    if (trouble_->crashed()) return gone();
    return inner_->look(path);
  }
  Result<std::uint64_t> free_bytes(const std::filesystem::path& folder) override {
    if (trouble_->crashed()) return gone();
    return inner_->free_bytes(folder);
  }
  Result<FolderLock> lock_folder(const std::filesystem::path& folder) override {
    if (trouble_->crashed()) return gone();
    return inner_->lock_folder(folder);
  }

 private:
  static Status gone() { return Status(Code::io, "the process is gone"); }

  const std::shared_ptr<FaultScript> script_ = std::make_shared<FaultScript>();
  const std::unique_ptr<IoEngine> inner_;
  const std::shared_ptr<Trouble> trouble_;
  std::map<int, FileKind> kinds_;  // by handle
  std::set<std::uint64_t> in_flight_;
};

}  // namespace

std::string to_string(const Strike& strike) {
  constexpr const char* kDirections[] = {"read", "write", "sync"};
  const Fault& fault = strike.fault;
  return fmt::format(
      "{} of the {} number {} from now, {} times (errno {}, amount {}, {} us), on {}",
      name_of(fault.kind), kDirections[static_cast<std::size_t>(fault.direction)], fault.first,
      fault.times, fault.errno_value, fault.amount, fault.time.count() / 1000,
      strike.files == FileKind::state ? "state" : "checkpoints");
}

void Trouble::arm(const Strike& strike) {
  const std::uint64_t from = seen(strike.files, strike.fault.direction) + strike.fault.first;
  armed_.push_back({strike, from, strike.fault.times});
}

void Trouble::crash_in(std::uint64_t calls) {
  calls_left_ = calls;
  crashed_ = crashed_ || calls == 0;
}

bool Trouble::crashes_now() {
  if (calls_left_ && !crashed_) crashed_ = --*calls_left_ == 0;
  return crashed_;
}

std::optional<Fault> Trouble::next(FileKind files, Direction direction) {
  const std::uint64_t number = seen(files, direction)++;
  for (Armed& armed : armed_) {
    const Strike& strike = armed.strike;
    if (armed.left == 0 || strike.files != files || strike.fault.direction != direction ||
        number < armed.from)
      continue;
    --armed.left;
    judge(strike);
    return strike.fault;
  }
  return std::nullopt;
}

// What must not make a call fail: a refusal to be repeated, a short transfer, a little delay, bytes
// of state that were read wrong once (a second flip may strike the second reading).
void Trouble::judge(const Strike& strike) {
  const Fault& fault = strike.fault;
  const bool writes = fault.direction == Direction::write;
  const bool damages = fault.kind == FaultKind::bit_flip || fault.kind == FaultKind::lost_write;
  bool soft = false;
  if (fault.kind == FaultKind::error) soft = is_refusal(fault.errno_value);
  if (fault.kind == FaultKind::short_transfer)
    soft = fault.amount >= kLeastAlignment && fault.amount % kLeastAlignment == 0;
  if (fault.kind == FaultKind::delay) soft = fault.time < deadline_ / 4;
  if (fault.kind == FaultKind::bit_flip)
    soft = strike.files == FileKind::state && !writes && fault.times == 1 && ++flips_ == 1 &&
           !reusable_;
  hard_ += soft ? 0 : 1;
  if (damages && writes) ++(strike.files == FileKind::checkpoint ? damaged_ : state_damaged_);
  stuck_ = stuck_ || fault.kind == FaultKind::never_completes ||
           (fault.kind == FaultKind::delay && !soft);
}

std::unique_ptr<IoEngine> open_drive(std::unique_ptr<IoEngine> disk, Clock& clock,
                                     std::shared_ptr<Trouble> trouble) {
  return std::make_unique<Drive>(std::move(disk), clock, std::move(trouble));
}

}  // namespace headrace::simulation
