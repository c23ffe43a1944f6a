#include "bench/adamw_bench.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "bench/adam_yardstick.h"
#include "bench/clean_rounds.h"
#include "bench/huge_pages.h"
#include "bench/stream_floor.h"

namespace headrace::bench {
namespace {

Status check(const AdamWBenchOptions& options) {
  const std::size_t step = options.resident ? kResidentElements : kSegmentElements;
  if (options.window == 0 || options.window % step != 0 || options.elements == 0 ||
      options.elements % options.window != 0 || options.rounds == 0 || options.gradients.empty() ||
      options.threads < 0) {
    return {Code::invalid,
            fmt::format("{} elements in windows of {}, {} rounds, {} types of gradients, {} "
                        "threads: take windows of a multiple of {}, a whole number of them, at "
                        "least one round and one type",
                        options.elements, options.window, options.rounds, options.gradients.size(),
                        options.threads, step)};
  }
  return {};
}

// The arrays that every variant walks through. All of them share moments, parameters and
// gradients of 16 bits, the split halves with the fp32 masters: each leaves them sane for the
// others.
struct Arrays {
  Pages master;
  Pages low;
  Pages exp_avg;
  Pages exp_avg_sq;
  Pages param;
  Pages grad;
  Pages wide_grad;
};

Result<Arrays> allocate(std::size_t elements) {
  HEADRACE_ASSIGN(Pages master, Pages::allocate(elements * sizeof(float)));
  HEADRACE_ASSIGN(Pages low, Pages::allocate(elements * sizeof(std::uint16_t)));
  HEADRACE_ASSIGN(Pages exp_avg, Pages::allocate(elements * sizeof(float)));
  HEADRACE_ASSIGN(Pages exp_avg_sq, Pages::allocate(elements * sizeof(float)));
  HEADRACE_ASSIGN(Pages param, Pages::allocate(elements * sizeof(std::uint16_t)));
  HEADRACE_ASSIGN(Pages grad, Pages::allocate(elements * sizeof(std::uint16_t)));
  HEADRACE_ASSIGN(Pages wide_grad, Pages::allocate(elements * sizeof(float)));
  return Arrays{std::move(master), std::move(low),  std::move(exp_avg),  std::move(exp_avg_sq),
                std::move(param),  std::move(grad), std::move(wide_grad)};
}

// Numbers of the sizes that training meets, of either sign but for exp_avg_sq, none of them tiny;
// those of 16 bits in bf16 and in fp16.
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
    const std::uint32_t grad = (next() & 0x807fffff) | 0x3c000000;
    arrays.grad.as<std::uint16_t>()[at] = static_cast<std::uint16_t>(grad >> 16);
    arrays.wide_grad.as<std::uint32_t>()[at] = grad;
  }
}

AdamWScalars scalars() { return adamw_scalars({.weight_decay = 0.01}, 1000, 1.0); }

// A format of the state and a type of gradients that go together.
struct Kind {
  StateLayout layout;
  ScalarType grad;

  std::size_t bytes() const { return stream_bytes_per_element(layout, grad); }

  std::string name() const {
    const std::string_view format = layout == StateLayout::fp32 ? "fp32" : "split";
    if (grad == ScalarType::bf16) return fmt::format("adamw.{}", format);
    return fmt::format("adamw.{}_{}", format, grad == ScalarType::fp16 ? "fp16" : "fp32");
  }
};

std::vector<Kind> kinds(std::span<const ScalarType> gradients) {
  std::vector<Kind> found;
  for (const StateLayout layout : {StateLayout::fp32, StateLayout::split}) {
    for (const ScalarType grad : gradients) {
      if (layout == StateLayout::fp32 || grad != ScalarType::fp16) found.push_back({layout, grad});
    }
  }
  return found;
}

AdamWRun run_of(const Arrays& arrays, Kind kind, std::size_t begin, std::size_t count) {
  const bool split = kind.layout == StateLayout::split;
  const Pages& grad = kind.grad == ScalarType::fp32 ? arrays.wide_grad : arrays.grad;
  AdamWRun run;
  run.layout = kind.layout;
  run.state = {split ? arrays.low.bytes().data() + begin * sizeof(std::uint16_t)
                     : arrays.master.bytes().data() + begin * sizeof(float),
               arrays.exp_avg.as<float>().data() + begin,
               arrays.exp_avg_sq.as<float>().data() + begin};
  run.param = arrays.param.bytes().data() + begin * sizeof(std::uint16_t);
  run.param_type = kind.grad == ScalarType::fp16 ? ScalarType::fp16 : ScalarType::bf16;
  run.grad = grad.bytes().data() + begin * size_of(kind.grad);
  run.grad_type = kind.grad;
  run.count = count;
  run.scalars = scalars();
  return run;
}

YardstickRun yardstick_of(const Arrays& arrays, std::size_t begin, std::size_t count) {
  return {.param = arrays.master.as<float>().subspan(begin, count),
          .exp_avg = arrays.exp_avg.as<float>().subspan(begin, count),
          .exp_avg_sq = arrays.exp_avg_sq.as<float>().subspan(begin, count),
          .grad = arrays.wide_grad.as<float>().subspan(begin, count),
          .low_param = arrays.param.as<std::uint16_t>().subspan(begin, count),
          .scalars = scalars()};
}

void update(const AdamWRun& run, const Team& team) { adamw_update({&run, 1}, team); }
void floor(const AdamWRun& run, const Team& team) { stream_floor(run, 0, team); }

class Bench {
 public:
  Bench(const AdamWBenchOptions& options, Arrays arrays)
      : options_(options), arrays_(std::move(arrays)) {}

  Result<Report> run() {
    touch();
    const Contest contest = options_.resident ? of_cache() : of_memory();
    HEADRACE_ASSIGN(Report report, clean_rounds(contest, {.rounds = options_.rounds,
                                                          .at_most = options_.at_most,
                                                          .watch = options_.watch}));
    if (team_sizes(options_.threads).size() == 1 && !options_.resident) {
      report.notes.emplace_back("one core: no rows of two threads");
    }
    if (!arrays_.master.huge()) report.notes.emplace_back("no huge pages: expect lower rates");
    return report;
  }

 private:
  // First touched by the threads that use it later, window by window.
  void touch() {
    const int threads = team_sizes(options_.threads).back();
    on_team({threads}, [this, threads](int thread) {
      for (std::size_t begin = 0; begin < options_.elements; begin += options_.window) {
        const Part part = part_of(options_.window, thread, threads);
        fill(arrays_, {begin + part.begin, begin + part.end});
      }
    });
  }

  Contest of_memory() const {
    Contest contest;
    for (const Kind kind : kinds(options_.gradients)) {
      for (const int threads : team_sizes(options_.threads)) {
        const std::size_t value = contest.add(walking(kind, threads, update));
        contest.rows.push_back({fmt::format("{}.{}t", kind.name(), threads), value,
                                contest.add(walking(kind, threads, floor))});
      }
    }
    if (options_.yardsticks) add_yardsticks(contest);
    return contest;
  }

  // All count the bytes of the update: the ratio is that of the times for the same elements.
  void add_yardsticks(Contest& contest) const {
    for (const int threads : team_sizes(options_.threads)) {
      const std::size_t value =
          contest.add(walking({StateLayout::fp32, ScalarType::bf16}, threads, update));
      contest.rows.push_back({fmt::format("adamw.over_loop.{}t", threads), value,
                              contest.add(yardstick(threads, adam_loop))});
      contest.rows.push_back({fmt::format("adamw.over_three_passes.{}t", threads), value,
                              contest.add(yardstick(threads, adam_three_passes))});
    }
  }

  Contest of_cache() const {
    Contest contest;
    for (const Kind kind : kinds(options_.gradients)) {
      const std::size_t value = contest.add(repeating(kind, update));
      contest.rows.push_back({kind.name() + ".l2", value, contest.add(repeating(kind, floor))});
    }
    return contest;
  }

  using Pass = void (*)(const AdamWRun&, const Team&);

  Variant walking(Kind kind, int threads, Pass pass) const {
    return {threads, options_.window * kind.bytes(), [this, kind, threads, pass](std::size_t turn) {
              pass(run_of(arrays_, kind, begin_of(turn), options_.window), {threads});
            }};
  }

  Variant repeating(Kind kind, Pass pass) const {
    return {1, options_.window * kind.bytes(), [this, kind, pass](std::size_t) {
              const AdamWRun run = run_of(arrays_, kind, 0, kResidentElements);
              for (std::size_t done = 0; done < options_.window; done += kResidentElements) {
                pass(run, {});
              }
            }};
  }

  Variant yardstick(int threads, void (*pass)(const YardstickRun&, const Team&)) const {
    return {threads, options_.window * stream_bytes_per_element(StateLayout::fp32),
            [this, threads, pass](std::size_t turn) {
              pass(yardstick_of(arrays_, begin_of(turn), options_.window), {threads});
            }};
  }

  std::size_t begin_of(std::size_t turn) const {
    return turn % (options_.elements / options_.window) * options_.window;
  }

  const AdamWBenchOptions options_;
  const Arrays arrays_;
};

}  // namespace

AdamWBenchOptions quick_adamw_bench() { return {.rounds = 30, .at_most = std::chrono::seconds(7)}; }

Result<Report> bench_adamw(const AdamWBenchOptions& options) {
  HEADRACE_TRY(check(options));
  HEADRACE_ASSIGN(Arrays arrays, allocate(options.elements));
  return Bench(options, std::move(arrays)).run();
}

}  // namespace headrace::bench
