#include "bench/norm_bench.h"

#include <bit>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "bench/clean_rounds.h"
#include "bench/huge_pages.h"
#include "bench/read_floor.h"
#include "optim_cpu/grad_norm.h"

namespace headrace::bench {
namespace {

// One block of fp32, two of 16 bits: a whole number of blocks of any type, and it stays in L2.
constexpr std::uint64_t kUnit = kNormBlock * sizeof(float);

Status check(const NormBenchOptions& options) {
  if (options.window == 0 || options.window % kUnit != 0 || options.bytes == 0 ||
      options.bytes % options.window != 0 || options.rounds == 0 || options.types.empty() ||
      options.threads < 0) {
    return {Code::invalid,
            fmt::format("{} B in windows of {}, {} rounds, {} types, {} threads: take windows of a "
                        "multiple of {} B, a whole number of them, at least one round and one type",
                        options.bytes, options.window, options.rounds, options.types.size(),
                        options.threads, kUnit)};
  }
  return {};
}

std::string_view name_of(ScalarType type) {
  switch (type) {
    case ScalarType::fp32:
      return "fp32";
    case ScalarType::bf16:
      return "bf16";
    case ScalarType::fp16:
      return "fp16";
  }
  return "?";
}

// Random bits that are finite numbers of ordinary sizes in every type.
void fill(std::span<std::uint32_t> words, Part part) {
  std::uint64_t random = part.begin + 1;
  for (std::size_t at = part.begin; at < part.end; ++at) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    words[at] = (static_cast<std::uint32_t>(random >> 32) & 0x807f807f) | 0x3c003c00;
  }
}

class Bench {
 public:
  Bench(const NormBenchOptions& options, Pages gradients)
      : options_(options), gradients_(std::move(gradients)), sums_(options.window / kUnit * 2) {}

  Result<Report> run() {
    touch();
    HEADRACE_TRY(verify());
    const Contest contest = options_.resident ? of_cache() : of_memory();
    HEADRACE_ASSIGN(Report report, clean_rounds(contest, {.rounds = options_.rounds,
                                                          .at_most = options_.at_most,
                                                          .watch = options_.watch}));
    HEADRACE_TRY(verify());
    if (!gradients_.huge()) report.notes.emplace_back("no huge pages: expect lower rates");
    return report;
  }

 private:
  // First touched by the threads that use it later, window by window.
  void touch() {
    const int threads = team_sizes(options_.threads).back();
    on_team({threads}, [this, threads](int thread) {
      const std::size_t window = options_.window / sizeof(std::uint32_t);
      for (std::size_t begin = 0; begin < options_.bytes / sizeof(std::uint32_t); begin += window) {
        const Part part = part_of(window, thread, threads);
        fill(gradients_.as<std::uint32_t>(), {begin + part.begin, begin + part.end});
      }
    });
  }

  Contest of_memory() {
    Contest contest;
    for (const ScalarType type : options_.types) {
      for (const int threads : team_sizes(options_.threads)) {
        const auto add = [&](auto pass) {
          return contest.add({threads, options_.window, [this, pass, type, threads](auto turn) {
                                (this->*pass)(window(turn), type, {threads});
                              }});
        };
        contest.rows.push_back({fmt::format("norm.{}.{}t", name_of(type), threads),
                                add(&Bench::norm), add(&Bench::floor)});
      }
    }
    return contest;
  }

  Contest of_cache() {
    Contest contest;
    for (const ScalarType type : options_.types) {
      const auto add = [&](auto pass) {
        return contest.add({1, options_.window, [this, pass, type](std::size_t) {
                              for (std::size_t done = 0; done < options_.window; done += kUnit) {
                                (this->*pass)(gradients_.bytes().first(kUnit), type, {});
                              }
                            }});
      };
      contest.rows.push_back(
          {fmt::format("norm.{}.l2", name_of(type)), add(&Bench::norm), add(&Bench::floor)});
    }
    return contest;
  }

  ConstBytes window(std::size_t turn) const {
    const std::size_t windows = options_.bytes / options_.window;
    return gradients_.bytes().subspan(turn % windows * options_.window, options_.window);
  }

  void norm(ConstBytes bytes, ScalarType type, Team team) {
    const std::size_t count = bytes.size() / size_of(type);
    block_sums(bytes.data(), type, count, std::span(sums_).first(norm_blocks(count)), team);
  }

  void floor(ConstBytes bytes, ScalarType type, Team team) {
    kept_ = read_floor(bytes, kNormBlock * size_of(type), team);
  }

  // The first unit, by the best instructions and by none.
  Status verify() {
    for (const ScalarType type : options_.types) {
      const ConstBytes bytes = gradients_.bytes().first(kUnit);
      norm(bytes, type, {});
      const std::vector<BlockSum> found = sums_;
      norm(bytes, type, {.target = available_targets().back()});
      for (std::size_t at = 0; at < norm_blocks(kUnit / size_of(type)); ++at) {
        if (sums_[at].first_non_finite < 0 && sums_[at].sum > 0 && sums_[at].sum == found[at].sum)
          continue;
        return {Code::corrupt, fmt::format("norm.{}: a sum of squares is {}, plain code says {}",
                                           name_of(type), found[at].sum, sums_[at].sum)};
      }
    }
    return {};
  }

  const NormBenchOptions options_;
  const Pages gradients_;
  std::vector<BlockSum> sums_;
  std::uint64_t kept_ = 0;  // of the floor, so that it is not optimized away
};

}  // namespace

NormBenchOptions quick_norm_bench() { return {.rounds = 30, .at_most = std::chrono::seconds(4)}; }

Result<Report> bench_norm(const NormBenchOptions& options) {
  HEADRACE_TRY(check(options));
  HEADRACE_ASSIGN(Pages gradients, Pages::allocate(options.bytes));
  return Bench(options, std::move(gradients)).run();
}

}  // namespace headrace::bench
