#include "bench/stress.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "bench/model.h"
#include "bench/stress_pair.h"

namespace headrace::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kOperationsOfARound = 40;

// Folders of a run's own in those that were given; they go with it.
class Workplace {
 public:
  static Result<Workplace> open(const StressOptions& options) {
    Workplace place;
    for (const fs::path& folder : options.folders) {
      std::string name = (folder / "headrace-stress-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr)
        return Status(Code::unavailable,
                      fmt::format("cannot make a folder in {}: give one that exists and may be "
                                  "written to",
                                  folder.string()));
      place.folders_.emplace_back(name);
    }
    return place;
  }
  Workplace(Workplace&&) = default;
  ~Workplace() {
    std::error_code gone;
    for (const fs::path& folder : folders_) fs::remove_all(folder, gone);
  }

  // Empty ones, one in each.
  std::vector<fs::path> fresh() const {
    std::vector<fs::path> made;
    for (const fs::path& folder : folders_) {
      std::error_code gone;
      fs::remove_all(folder, gone);
      made.push_back(folder / "state");
      fs::create_directories(made.back(), gone);
      fs::permissions(folder, fs::perms::owner_all, gone);
    }
    return made;
  }
  fs::path checkpoint(const char* name) const { return folders_.front() / name; }

 private:
  Workplace() = default;
  std::vector<fs::path> folders_;
};

class Run {
 public:
  Run(const StressOptions& options, const Workplace& place)
      : options_(options), place_(place), random_(options.seed) {
    summary_.seed = options.seed;
  }

  Result<StressSummary> all() {
    while (!over()) HEADRACE_TRY(round());
    summary_.seconds = seconds();
    return summary_;
  }

 private:
  Status round() {
    const std::uint64_t seed = random_();
    pair_.reset();
    HEADRACE_ASSIGN(pair_, StressPair::open(place_.fresh(), options_.state_bytes, seed));
    ++summary_.rounds;
    struck_ = 0;
    do_one("save", [this] { return pair_->save(place_.checkpoint("safe")); });
    for (int i = 0; i < kOperationsOfARound && !over(); ++i) operation();
    pair_->script().clear();
    if (!over() || summary_.stopped) do_one("compare", [this] { return pair_->compare_all(); });
    const Stats stats = pair_->stats();
    summary_.read_bytes += stats.nvme_read_bytes;
    summary_.written_bytes += stats.nvme_written_bytes;
    summary_.compared_bytes += pair_->compared_bytes();
    pair_.reset();
    return {};
  }

  void operation() {
    if (options_.faults && random_() % 2 == 0) pair_->script().add(some_fault());
    switch (random_() % 12) {
      case 0:
      case 1:
        return do_one("read", [this] { return pair_->read(); });
      case 2:
        return do_one("write", [this] { return pair_->write(); });
      case 3:
        return do_one("lease", [this] { return pair_->lease(); });
      case 4:
        return do_one("save", [this] { return pair_->save(place_.checkpoint("other")); });
      case 5:
        return do_one("load", [this] { return pair_->load(place_.checkpoint("safe")); });
      case 6:
        return do_one("compare", [this] { return pair_->compare_all(); });
      case 7:
        if (!pair_->reusable()) break;
        do_one("reopen", [this] { return pair_->reopen(); });
        ++summary_.reopened;
        return;
      default:
        break;
    }
    ++summary_.steps;
    do_one("step", [this] { return pair_->step(); });
  }

  void do_one(const char* name, const std::function<Verdict()>& call) {
    const std::uint64_t before = pair_->script().struck();
    const double start = seconds();
    Verdict verdict = call();
    const double taken = seconds() - start;
    if (taken > summary_.slowest_seconds) {
      summary_.slowest_seconds = taken;
      summary_.slowest = name;
    }
    ++summary_.operations;
    const std::uint64_t struck = pair_->script().struck();
    summary_.faults += struck - before;
    if (!verdict.wrong.empty()) return wrong(name, verdict.wrong);
    if (verdict.status.ok())
      summary_.survived += struck - before;
    else
      recover(name, verdict.status);
    if (options_.progress) {
      summary_.seconds = seconds();
      options_.progress(summary_);
    }
  }

  // Only a fault explains a failure; then the last checkpoint brings both to the same bits.
  void recover(const char* name, const Status& why) {
    if (pair_->script().struck() == struck_)
      return wrong(name, "failed, and no fault was injected: " + why.to_string());
    ++summary_.reported;
    pair_->script().clear();
    Verdict verdict = pair_->load(place_.checkpoint("safe"));
    if (verdict.status.ok() && verdict.wrong.empty()) verdict = pair_->compare_all();
    if (!verdict.wrong.empty()) return wrong("recovery", verdict.wrong);
    if (!verdict.status.ok()) return wrong("recovery", verdict.status.to_string());
    struck_ = pair_->script().struck();
    ++summary_.recovered;
  }

  void wrong(const char* name, const std::string& what) {
    if (summary_.wrong.empty())
      summary_.wrong =
          fmt::format("{} in round {} ({}): {}", name, summary_.rounds, pair_->words(), what);
  }

  // What a reusable slab's records lose on the way to the drive cannot be known when it is opened
  // again, and then it has an older step.
  Fault some_fault() {
    constexpr std::array kKinds = {FaultKind::error,         FaultKind::short_transfer,
                                   FaultKind::zero_progress, FaultKind::delay,
                                   FaultKind::bit_flip,      FaultKind::lost_write};
    Fault fault;
    fault.kind = kKinds[random_() % kKinds.size()];
    fault.direction = random_() % 2 == 0 ? Direction::read : Direction::write;
    if (fault.kind == FaultKind::lost_write) fault.direction = Direction::write;
    if (pair_->reusable() && fault.direction == Direction::write) fault.kind = FaultKind::error;
    fault.first = pair_->script().seen(fault.direction) + random_() % 20;
    constexpr std::array kErrors = {EINTR, EIO, EAGAIN, ECANCELED};
    fault.errno_value = kErrors[random_() % kErrors.size()];
    fault.amount = fault.kind == FaultKind::bit_flip ? random_() % 30'000 : 4096 * (random_() % 4);
    fault.time = std::chrono::milliseconds(random_() % 20);
    return fault;
  }

  bool over() {
    summary_.stopped |= options_.stop && options_.stop();
    if (!summary_.wrong.empty() || summary_.stopped) return true;
    if (options_.operations > 0) return summary_.operations >= options_.operations;
    return seconds() >= static_cast<double>(options_.time.count());
  }
  double seconds() const { return seconds_of(clock_.now() - start_); }

  const StressOptions& options_;
  const Workplace& place_;
  std::mt19937_64 random_;
  const Clock clock_;
  const Nanoseconds start_ = clock_.now();
  StressSummary summary_;
  std::unique_ptr<StressPair> pair_;
  std::uint64_t struck_ = 0;  // faults that the last recovery has answered
};

}  // namespace

Result<StressSummary> stress(const StressOptions& options) {
  if (options.folders.empty()) return Status(Code::invalid, "give at least one folder");
  HEADRACE_ASSIGN(const Workplace place, Workplace::open(options));
  return Run(options, place).all();
}

}  // namespace headrace::bench
