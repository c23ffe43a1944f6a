// What `headrace plan` prints.
#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "cli/plan.h"
#include "io/bytes.h"

namespace headrace::cli {
namespace {

template <class... Args>
void add(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

std::string rate(std::uint64_t bytes_per_second) { return format_bytes(bytes_per_second) + "/s"; }

void add_row(std::string& text, std::string_view tier, std::string_view what, std::uint64_t bytes) {
  if (bytes > 0) add(text, "  {:<5} {:<22} {:>9}\n", tier, what, format_bytes(bytes));
}

std::string ledger(const HeldBytes& held) {
  std::string text = "What lies where\n";
  add_row(text, "HBM", "state", held.hbm_state);
  add_row(text, "HBM", "parameters", held.device_params);
  add_row(text, "DRAM", "slots", held.slots);
  add_row(text, "DRAM", "state, pinned", held.dram_state);
  add_row(text, "DRAM", "parameters", held.params);
  add_row(text, "DRAM", "gradients", held.gradients);
  add_row(text, "DRAM", "blocks for checkpoints", held.staging);
  add_row(text, "DRAM", "in all", held.dram());
  add_row(text, "NVMe", "state", held.nvme_state);
  return text;
}

std::string assumptions(const PlanReport& report) {
  const PlanOptions& options = report.options;
  const bool measured = !options.measure.empty();
  std::string text =
      fmt::format("{} parameters in {} units, state {}: {}\n", options.parameters, options.units,
                  bench::name_of(options.format), report.stats.placement);
  add(text, "{}: NVMe reads {}, writes {}{}; memory traffic of the update {}\n",
      measured ? "Measured" : "Assumed", rate(options.nvme_read), rate(options.nvme_write),
      options.nvme_mixed > 0 ? ", both at once " + rate(options.nvme_mixed) : std::string(),
      rate(options.update));
  add(text, "Compute on a device: forward {:.3f} s, backward {:.3f} s, {} of them a step{}\n",
      report.parts.forward, report.parts.backward, report.parts.micro_batches,
      options.forward
          ? std::string()
          : fmt::format(" ({:g} tokens at {:g} flop/s)", options.tokens, options.flops));
  return text;
}

std::string words_of(const Limit& limit) {
  if (limit.resource == "compute") return "compute: the update is hidden behind it";
  return fmt::format("{}, busy for {:.0f} % of it", limit.resource, 100 * limit.busy);
}

std::string step(const PlanReport& report) {
  std::string text = fmt::format("A step: {:.3f} s; the best possible one {:.3f} s\n",
                                 report.step_seconds, report.best_seconds);
  add(text, "  limited by {}\n", words_of(report.limit));
  add(text,
      "  alone: update {:.3f} s, all state through the disk {:.3f} s; {:.0f} % of it hidden\n",
      report.parts.update, report.parts.io, 100 * report.hidden);
  return text;
}

std::string hiding(const PlanReport& report) {
  if (report.parts.in_dram >= report.hiding_share) return {};
  return fmt::format(
      "  the disk's part would hide with {:.0f} % of the state in DRAM: --dram {:.1f}GB gives "
      "{:.3f} "
      "s, limited by {}\n",
      100 * report.hiding_share, std::ceil(static_cast<double>(report.hiding_bytes) / 1e8) / 10,
      report.hiding_seconds, words_of(report.hiding_limit));
}

std::string endurance(const PlanReport& report) {
  if (report.written_bytes == 0) return "NVMe: not used\n";
  std::string text =
      fmt::format("NVMe: {} read and {} written a step, {} written a day\n",
                  format_bytes(report.read_bytes), format_bytes(report.written_bytes),
                  format_bytes(static_cast<std::uint64_t>(written_a_day(report))));
  add(text, "  a rating of {} written lasts {:.0f} days of training without a pause\n",
      format_bytes(report.options.rated_endurance), days_of_endurance(report));
  return text;
}

}  // namespace

std::string text_of(const PlanReport& report) {
  return assumptions(report) + "\n" + ledger(report.stats.held) + "\n" + step(report) +
         hiding(report) + "\n" + endurance(report);
}

}  // namespace headrace::cli
