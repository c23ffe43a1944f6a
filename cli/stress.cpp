#include "cli/stress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "cli/outcome.h"

namespace headrace::cli {
namespace {

constexpr int kInterrupted = 130;

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int) { interrupted = 1; }

// One line that is written over, on terminals only; at most ten times a second.
class Progress {
 public:
  void show(const bench::StressSummary& so_far) {
    if (!terminal_ || so_far.seconds - shown_ < 0.1) return;
    shown_ = so_far.seconds;
    fmt::print(stderr, "\r{:6.1f} s, round {}, {} operations, {} faults ", so_far.seconds,
               so_far.rounds, so_far.operations, so_far.faults);
  }
  void clear() const {
    if (shown_ >= 0) fmt::print(stderr, "\r{:70}\r", "");
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  double shown_ = -1;
};

std::string verdict_of(const bench::StressSummary& summary) {
  if (!summary.wrong.empty())
    return fmt::format("WRONG: {}\nTo see it again: headrace stress --seed {}\n", summary.wrong,
                       summary.seed);
  return fmt::format("{}: every byte was right, every fault survived or reported.\n",
                     summary.stopped ? "Stopped" : "All is well");
}

}  // namespace

std::string text_of(const bench::StressSummary& summary) {
  std::string text;
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("  {:34} {}\n", name, value);
  };
  text += fmt::format("Stress, seed {}, {:.1f} s\n", summary.seed, summary.seconds);
  line("machines and models", fmt::format("{}", summary.rounds));
  line("operations, steps among them", fmt::format("{}, {}", summary.operations, summary.steps));
  line("state read, written on disk", fmt::format("{}, {}", format_bytes(summary.read_bytes),
                                                  format_bytes(summary.written_bytes)));
  line("compared with the reference", format_bytes(summary.compared_bytes));
  line("faults injected", fmt::format("{}", summary.faults));
  line("survived without a word", fmt::format("{}", summary.survived));
  line("operations that failed and said so", fmt::format("{}", summary.reported));
  line("recovered from a checkpoint", fmt::format("{}", summary.recovered));
  line("reusable slabs opened again", fmt::format("{}", summary.reopened));
  line("slowest operation", fmt::format("{}, {:.3f} s", summary.slowest, summary.slowest_seconds));
  return text + verdict_of(summary);
}

int run_stress(const StressRequest& request) {
  bench::StressOptions options;
  options.folders = request.scratch;
  options.time = std::chrono::seconds(request.seconds);
  options.operations = request.operations;
  options.seed = request.seed != 0 ? request.seed : std::random_device()();
  options.state_bytes = request.state_bytes;
  options.faults = !request.no_faults;
  Progress progress;
  options.progress = [&progress](const bench::StressSummary& so_far) { progress.show(so_far); };
  options.stop = [] { return interrupted != 0; };
  std::signal(SIGINT, note_interrupt);
  std::signal(SIGTERM, note_interrupt);
  const Result<bench::StressSummary> summary = bench::stress(options);
  progress.clear();
  if (!summary.ok()) return fail("stress", summary.status());
  const int shown = show("stress", request.json, text_of(*summary), json_of(*summary));
  if (!summary->wrong.empty()) return kWrong;
  return summary->stopped ? kInterrupted : shown;
}

}  // namespace headrace::cli
