#include "bench/clean_rounds.h"

#include <ctime>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "optim_cpu/team.h"

namespace headrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double kCleanShare = 0.975;
constexpr std::size_t kFewClean = 5;  // say less than all rounds do

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Sample {
  double gigabytes_per_second = 0;
  double cpu = 0;  // seconds per GB
  bool clean = false;
};

// A team of several counts the whole process: nothing else runs in it meanwhile.
Sample sample(const Variant& variant, std::size_t turn) {
  const clockid_t clock = variant.threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
  const double cpu_before = seconds_of(clock);
  const auto start = SteadyClock::now();
  variant.run(turn);
  const std::chrono::duration<double> wall = SteadyClock::now() - start;
  const double cpu = seconds_of(clock) - cpu_before;
  const double gigabytes = static_cast<double>(variant.bytes) * 1e-9;
  return {gigabytes / wall.count(), cpu / gigabytes,
          cpu >= kCleanShare * wall.count() * variant.threads};
}

struct RowRounds {
  std::vector<Round> clean;
  std::vector<Round> all;
};

class Rounds {
 public:
  Rounds(const Contest& contest, std::size_t wanted)
      : contest_(contest), wanted_(wanted), rows_(contest.rows.size()) {}

  void warm_up() {
    round();
    for (RowRounds& row : rows_) row = {};
  }

  // Every variant once, beginning one further than the last time.
  void round() {
    const std::size_t variants = contest_.variants.size();
    std::vector<Sample> samples(variants);
    for (std::size_t at = 0; at < variants; ++at) {
      const std::size_t index = (at + rounds_done_) % variants;
      samples[index] = sample(contest_.variants[index], turn_++);
    }
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      keep(rows_[row], samples[contest_.rows[row].value], samples[contest_.rows[row].bound]);
    }
    ++rounds_done_;
  }

  bool complete() const {
    return std::ranges::all_of(
        rows_, [this](const RowRounds& row) { return row.clean.size() >= wanted_; });
  }

  Report report() const {
    Report report;
    for (std::size_t at = 0; at < rows_.size(); ++at) {
      const RowRounds& row = rows_[at];
      const std::string& name = contest_.rows[at].name;
      const bool enough = row.clean.size() >= std::min(kFewClean, wanted_);
      report.rows.push_back(rate_row(name, enough ? row.clean : row.all));
      if (row.clean.size() >= wanted_) continue;
      report.notes.push_back(fmt::format(
          "{}: {} clean rounds of {} wanted: other work took the cores{}", name, row.clean.size(),
          wanted_, enough ? "" : "; the row is made of all rounds, the disturbed ones too"));
    }
    return report;
  }

 private:
  static void keep(RowRounds& row, const Sample& value, const Sample& bound) {
    const Round round{value.gigabytes_per_second, bound.gigabytes_per_second, value.cpu};
    row.all.push_back(round);
    if (value.clean && bound.clean) row.clean.push_back(round);
  }

  const Contest& contest_;
  const std::size_t wanted_;
  std::vector<RowRounds> rows_;
  std::size_t rounds_done_ = 0;
  std::size_t turn_ = 0;
};

}  // namespace

std::size_t Contest::add(Variant variant) {
  variants.push_back(std::move(variant));
  return variants.size() - 1;
}

Result<Report> clean_rounds(const Contest& contest, const CleanRoundsOptions& options) {
  const auto end = SteadyClock::now() + options.at_most;
  Rounds rounds(contest, options.rounds);
  rounds.warm_up();
  for (std::size_t done = 0; done < 50 * options.rounds && !rounds.complete(); ++done) {
    if (SteadyClock::now() >= end && done > 0) break;
    HEADRACE_TRY(before_round(options.watch, contest.rows.front().name, done));
    rounds.round();
  }
  return rounds.report();
}

std::vector<int> team_sizes(int threads) {
  const int all = threads > 0 ? threads : affinity_threads();
  return all == 1 ? std::vector{1} : std::vector{1, all};
}

}  // namespace headrace::bench
