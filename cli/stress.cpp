#include "cli/stress.h"

#include <fmt/format.h>

#include <random>

#include "cli/outcome.h"
#include "cli/progress.h"

namespace headrace::cli {
namespace {

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
  ProgressLine progress;
  options.progress = [&progress](const bench::StressSummary& so_far) {
    if (progress.due())
      progress.show(fmt::format("round {}, {} operations, {} faults", so_far.rounds,
                                so_far.operations, so_far.faults));
  };
  options.stop = interrupted;
  note_interrupts();
  const Result<bench::StressSummary> summary = bench::stress(options);
  progress.clear();
  if (!summary.ok()) return fail("stress", summary.status());
  const int shown = show("stress", request.json, text_of(*summary), json_of(*summary));
  if (!summary->wrong.empty()) return kWrong;
  return summary->stopped ? kInterrupted : shown;
}

}  // namespace headrace::cli
