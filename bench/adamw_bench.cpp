#include "bench/adamw_bench.h"

#include <ctime>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "bench/huge_pages.h"
#include "bench/stream_floor.h"

namespace headrace::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

Status check(const AdamWBenchOptions& options) {
  if (options.window == 0 || options.window % kSegmentElements != 0 ||
      options.elements % options.window != 0 || options.elements == 0 || options.rounds == 0) {
    return {
        Code::invalid,
        fmt::format("{} elements in windows of {}, {} rounds: take windows of a multiple of {}, "
                    "a whole number of them and at least one round",
                    options.elements, options.window, options.rounds, kSegmentElements)};
  }
  return {};
}

// The arrays that every variant walks through. The split halves share gradients, moments and
// parameters with the fp32 masters: both updates leave them sane for the other.
struct Arrays {
  Pages master;
  Pages low;
  Pages exp_avg;
  Pages exp_avg_sq;
  Pages param;
  Pages grad;
};

Result<Arrays> allocate(std::size_t elements) {
  HEADRACE_ASSIGN(Pages master, Pages::allocate(elements * sizeof(float)));
  HEADRACE_ASSIGN(Pages low, Pages::allocate(elements * sizeof(std::uint16_t)));
  HEADRACE_ASSIGN(Pages exp_avg, Pages::allocate(elements * sizeof(float)));
  HEADRACE_ASSIGN(Pages exp_avg_sq, Pages::allocate(elements * sizeof(float)));
  HEADRACE_ASSIGN(Pages param, Pages::allocate(elements * sizeof(std::uint16_t)));
  HEADRACE_ASSIGN(Pages grad, Pages::allocate(elements * sizeof(std::uint16_t)));
  return Arrays{std::move(master),     std::move(low),   std::move(exp_avg),
                std::move(exp_avg_sq), std::move(param), std::move(grad)};
}

// Numbers of the sizes that training meets, of either sign but for exp_avg_sq, none of them tiny.
void fill(const Arrays& arrays, Part part) {
  std::uint32_t random = static_cast<std::uint32_t>(part.begin) * 2654435761U + 1;
  const auto next = [&random] { return random = random * 1664525 + 1013904223; };
  for (std::size_t at = part.begin; at < part.end; ++at) {
    const std::uint32_t bits = next();
    arrays.master.as<std::uint32_t>()[at] = (bits & 0x807fffff) | 0x3d000000;
    arrays.exp_avg.as<std::uint32_t>()[at] = (next() & 0x807fffff) | 0x3b000000;
    arrays.exp_avg_sq.as<std::uint32_t>()[at] = (next() & 0x007fffff) | 0x38000000;
    arrays.low.as<std::uint16_t>()[at] = static_cast<std::uint16_t>(next() >> 16);
    arrays.param.as<std::uint16_t>()[at] = static_cast<std::uint16_t>(bits >> 16 & 0x807f) | 0x3d00;
    arrays.grad.as<std::uint16_t>()[at] =
        static_cast<std::uint16_t>(next() >> 16 & 0x807f) | 0x3c00;
  }
}

AdamWRun run_of(const Arrays& arrays, StateLayout layout, std::size_t begin, std::size_t count) {
  const bool split = layout == StateLayout::split;
  AdamWRun run;
  run.layout = layout;
  run.state = {split ? arrays.low.bytes().data() + begin * sizeof(std::uint16_t)
                     : arrays.master.bytes().data() + begin * sizeof(float),
               arrays.exp_avg.as<float>().data() + begin,
               arrays.exp_avg_sq.as<float>().data() + begin};
  run.param = arrays.param.bytes().data() + begin * sizeof(std::uint16_t);
  run.grad = arrays.grad.bytes().data() + begin * sizeof(std::uint16_t);
  run.count = count;
  run.scalars = adamw_scalars({.weight_decay = 0.01}, 1000, 1.0);
  return run;
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Sample {
  double gigabytes_per_second = 0;
  bool clean = false;
};

// A team of two counts the whole process: nothing else runs in it meanwhile.
template <class Work>
Sample sample(std::size_t bytes, int threads, const Work& work) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID;
  const double cpu_before = seconds_of(clock);
  const auto start = SteadyClock::now();
  work();
  const std::chrono::duration<double> wall = SteadyClock::now() - start;
  const double cpu = seconds_of(clock) - cpu_before;
  return {static_cast<double>(bytes) / wall.count() * 1e-9, cpu >= 0.975 * wall.count() * threads};
}

enum class Kind : std::uint8_t { update, floor };

struct RowRounds {
  std::string name;
  StateLayout layout;
  Team team;
  std::vector<Round> clean;
  std::vector<Round> all;
};

class Bench {
 public:
  Bench(const AdamWBenchOptions& options, Arrays arrays)
      : options_(options), arrays_(std::move(arrays)) {
    for (const StateLayout layout : {StateLayout::fp32, StateLayout::split}) {
      for (int threads = 1; threads <= std::min(2, affinity_threads()); ++threads) {
        const std::string_view format = layout == StateLayout::fp32 ? "fp32" : "split";
        rows_.push_back({fmt::format("adamw.{}.{}t", format, threads), layout, {threads}, {}, {}});
      }
    }
  }

  Report run() {
    const auto end = SteadyClock::now() + options_.at_most;
    touch();
    round();  // warms up
    for (RowRounds& row : rows_) row.clean.clear(), row.all.clear();
    for (std::size_t done = 0; done < 50 * options_.rounds && !complete(); ++done) {
      if (SteadyClock::now() >= end && done > 0) break;
      round();
    }
    return report();
  }

 private:
  // First touched by the threads that use it later, window by window.
  void touch() {
    const int threads = std::min(2, affinity_threads());
    on_team({threads}, [this, threads](int thread) {
      for (std::size_t begin = 0; begin < options_.elements; begin += options_.window) {
        const Part part = part_of(options_.window, thread, threads);
        fill(arrays_, {begin + part.begin, begin + part.end});
      }
    });
  }

  bool complete() const {
    for (const RowRounds& row : rows_) {
      if (row.clean.size() < options_.rounds) return false;
    }
    return true;
  }

  // Every variant once, beginning one further than the last time.
  void round() {
    std::vector<std::array<Sample, 2>> samples(rows_.size());
    const std::size_t variants = 2 * rows_.size();
    for (std::size_t turn = 0; turn < variants; ++turn) {
      const std::size_t variant = (turn + rounds_done_) % variants;
      samples[variant / 2][variant % 2] =
          measure(rows_[variant / 2], static_cast<Kind>(variant % 2));
    }
    for (std::size_t at = 0; at < rows_.size(); ++at) keep(rows_[at], samples[at]);
    ++rounds_done_;
  }

  static void keep(RowRounds& row, const std::array<Sample, 2>& pair) {
    const Round round{pair[0].gigabytes_per_second, pair[1].gigabytes_per_second};
    row.all.push_back(round);
    if (pair[0].clean && pair[1].clean) row.clean.push_back(round);
  }

  Sample measure(const RowRounds& row, Kind kind) {
    const std::size_t begin = next_window_++ % (options_.elements / options_.window);
    const AdamWRun run = run_of(arrays_, row.layout, begin * options_.window, options_.window);
    const std::size_t bytes = options_.window * stream_bytes_per_element(row.layout);
    if (kind == Kind::floor) {
      return sample(bytes, row.team.threads, [&] { stream_floor(run, 0, row.team); });
    }
    return sample(bytes, row.team.threads, [&] { adamw_update({&run, 1}, row.team); });
  }

  Report report() const {
    Report report;
    for (const RowRounds& row : rows_) {
      const bool enough = !row.clean.empty();
      report.rows.push_back(rate_row(row.name, enough ? row.clean : row.all));
      if (row.clean.size() >= options_.rounds) continue;
      report.notes.push_back(
          fmt::format("{}: {} clean rounds of {} wanted: other work took the cores{}", row.name,
                      row.clean.size(), options_.rounds,
                      enough ? "" : "; the row is made of the disturbed ones"));
    }
    if (rows_.size() < 4) report.notes.emplace_back("one core: no rows of two threads");
    if (!arrays_.master.huge()) report.notes.emplace_back("no huge pages: expect lower rates");
    return report;
  }

  const AdamWBenchOptions options_;
  const Arrays arrays_;
  std::vector<RowRounds> rows_;
  std::size_t rounds_done_ = 0;
  std::size_t next_window_ = 0;
};

}  // namespace

AdamWBenchOptions quick_adamw_bench() { return {.rounds = 30, .at_most = std::chrono::seconds(7)}; }

Result<Report> bench_adamw(const AdamWBenchOptions& options) {
  HEADRACE_TRY(check(options));
  HEADRACE_ASSIGN(Arrays arrays, allocate(options.elements));
  return Bench(options, std::move(arrays)).run();
}

}  // namespace headrace::bench
