// The closing table of a run.
#include <fmt/format.h>

#include "examples/train_gpt/report.h"

namespace train_gpt {
namespace {

constexpr double kMega = 1e6, kGiga = 1e9, kTera = 1e12, kDay = 86400;

std::string size(double bytes) {
  if (bytes >= kTera) return fmt::format("{:.2f} TB", bytes / kTera);
  if (bytes >= kGiga) return fmt::format("{:.2f} GB", bytes / kGiga);
  return fmt::format("{:.1f} MB", bytes / kMega);
}
std::string size(std::uint64_t bytes) { return size(static_cast<double>(bytes)); }

std::string row(std::string_view what, std::string_view value) {
  return fmt::format("  {:<34} {}\n", what, value);
}

std::string held_rows(const RunReport& report) {
  const headrace::HeldBytes& held = report.stats.held;
  std::string text = "Where the bytes lived\n";
  text += row("optimizer state, NVMe", size(held.nvme_state));
  text += row("optimizer state, DRAM", size(held.dram_state));
  if (held.hbm_state > 0) text += row("optimizer state, HBM", size(held.hbm_state));
  text += row("slots it passes through, DRAM", size(held.slots));
  text += row("parameters, DRAM", size(held.params));
  text += row("gradients, DRAM", size(held.gradients));
  text += row("activations, DRAM", size(report.activation_bytes));
  text += row("fp32 scratch of a layer, DRAM", size(report.scratch_bytes));
  text += row("peak resident memory", size(report.peak_rss_bytes));
  return text;
}

std::string traffic_rows(const RunReport& report) {
  std::string text = "NVMe traffic of the steps\n";
  const double written = static_cast<double>(report.nvme_written_bytes);
  if (written == 0) return text + row("none", "the state was in memory");
  const double per_step = written / static_cast<double>(report.steps());
  text += row("read per parameter and step", fmt::format("{:.3f} B", report.read_per_parameter()));
  text += row("written per parameter and step",
              fmt::format("{:.3f} B", report.written_per_parameter()));
  text += row("padding of the parameters", fmt::format("{:.2f} %", 100 * report.padding_share()));
  text += row("written per day at this pace", size(report.written_per_day()));
  text += row("1 TB of rated endurance lasts",
              fmt::format("{:.0f} steps, {:.2f} days at this pace", kTera / per_step,
                          kTera / per_step * report.step_seconds / kDay));
  return text;
}

std::string time_rows(const RunReport& report) {
  const StepParts& parts = report.parts;
  std::string text = "Time of a step\n";
  text += row("step, median", fmt::format("{:.3f} s", report.step_seconds));
  text += row("tokens per second", fmt::format("{:.0f}", report.tokens_per_second()));
  if (parts.forward == 0) return text;  // the run was stopped before they were measured
  text += row("forward, backward alone",
              fmt::format("{:.3f} s, {:.3f} s", parts.forward, parts.backward));
  text += row("update, NVMe transfers alone",
              fmt::format("{:.3f} s, {:.3f} s", parts.update, parts.io));
  text += row("best possible from these", fmt::format("{:.3f} s", parts.best()));
  text += row("step / best possible", fmt::format("{:.3f}", report.ratio()));
  text += row("compute waited for the update",
              fmt::format("{:.3f} s of {:.3f} s", report.exposed_seconds, report.update_seconds));
  text += row("share of the update hidden", fmt::format("{:.1f} %", 100 * report.hidden_share()));
  return text;
}

std::string result_rows(const RunReport& report) {
  std::string text = "Result\n";
  if (!report.losses.empty()) {
    text += row("loss, first and last step",
                fmt::format("{:.4f} (step {}), {:.4f} (step {})", report.losses.front().loss,
                            report.losses.front().step, report.losses.back().loss,
                            report.losses.back().step));
  }
  if (report.held_out_loss) {
    text += row("loss on held-out text", fmt::format("{:.4f}", *report.held_out_loss));
  }
  return text + row("state hash", fmt::format("{:016x}", report.state_hash));
}

}  // namespace

std::string to_table(const RunReport& report) {
  std::string text = held_rows(report) + traffic_rows(report);
  if (!report.losses.empty()) text += time_rows(report);
  return text + result_rows(report);
}

}  // namespace train_gpt
