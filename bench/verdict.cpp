#include "bench/verdict.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/bytes.h"

namespace headrace::bench {
namespace {

constexpr double kGradientBytes = 2, kParameterBytes = 2;  // bf16
constexpr int kSlots = 4;
constexpr std::uint64_t kMostShard = 32 * kMiB;

double state_bytes(StateFormat format) {
  return static_cast<double>(state_bytes_per_element(layout_of(format, ScalarType::bf16)));
}

// Memory that the kernel touches for a parameter: its state twice, gradient in, parameter out; in
// split the parameter is read, too.
double kernel_bytes(StateFormat format) {
  const double read = format == StateFormat::split ? kParameterBytes : 0;
  return 2 * state_bytes(format) + kGradientBytes + kParameterBytes + read;
}

std::string seconds(double value) {
  return value >= 1 ? fmt::format("{:.2f} s", value) : fmt::format("{:.1f} ms", value * 1e3);
}

struct Part {
  std::string_view name;
  double seconds;
};

std::array<Part, 4> parts_of(const StepCosts& costs) {
  return {{{"the disk", costs.disk},
           {"the update's memory traffic", costs.update},
           {"the norm of the gradients", costs.norm},
           {"copies to and from the device", costs.copies}}};
}

std::string_view limit_of(const StepCosts& costs) {
  return std::ranges::max(parts_of(costs), {}, &Part::seconds).name;
}

// "a second drive like this one: 4.70 s instead of 9.40 s"
std::string line(std::string_view what, double with, double without) {
  if (with > 0.99 * without) return fmt::format("  {}: no change\n", what);
  return fmt::format("  {}: {} instead of {}\n", what, seconds(with), seconds(without));
}

std::string table(const MeasuredRates& rates, double parameters, double share) {
  std::string text = fmt::format("{:<10}{:>12}{:>12}{:>12}{:>12}  {}\n", "format", "disk", "update",
                                 "norm", "copies", "limit");
  for (const StateFormat format : {StateFormat::fp32, StateFormat::split}) {
    const StepCosts costs = costs_of(rates, parameters, format, {.share = share});
    text += fmt::format("{:<10}{:>12}{:>12}{:>12}{:>12}  {}\n",
                        format == StateFormat::fp32 ? "fp32" : "split", seconds(costs.disk),
                        seconds(costs.update), seconds(costs.norm), seconds(costs.copies),
                        limit_of(costs));
  }
  return text;
}

std::string more(const MeasuredRates& rates, double parameters, double share) {
  constexpr StateFormat kFormat = StateFormat::split;
  const auto longest = [&](const Variant& variant) {
    return costs_of(rates, parameters, kFormat, variant).longest();
  };
  const double now = longest({.share = share});
  const double gb = std::min(1.0, share + 1e9 / (parameters * state_bytes(kFormat)));
  return line("a second drive like this one", longest({.share = share, .drives = 2}), now) +
         line("one GB more of DRAM for state", longest({.share = gb}), now) +
         line("twice the cores and memory channels", longest({.share = share, .cores = 2}), now);
}

std::string settings(const MeasuredRates& rates, double parameters, double share) {
  if (share >= 1)
    return "  all of the state fits in DRAM: leave it there (state dram), no slots are needed\n";
  const double state = parameters * state_bytes(StateFormat::split);
  const auto shard = static_cast<std::uint64_t>(
      std::clamp(state / 48, static_cast<double>(kMiB), static_cast<double>(kMostShard)));
  return fmt::format(
      "  format split, {} slots, shards of {}, {} of DRAM for state ({:.0f} % of it): {} read and "
      "{} written in a step\n",
      kSlots, format_bytes(round_up(shard, kMiB)),
      format_bytes(std::max<std::uint64_t>(rates.dram_bytes, kSlots * round_up(shard, kMiB))),
      100 * share, format_bytes(static_cast<std::uint64_t>((1 - share) * state)),
      format_bytes(static_cast<std::uint64_t>((1 - share) * state)));
}

}  // namespace

double StepCosts::longest() const noexcept { return std::max({disk, update, norm, copies}); }

StepCosts costs_of(const MeasuredRates& rates, double parameters, StateFormat format,
                   const Variant& variant) {
  const double moved = (1 - variant.share) * parameters * state_bytes(format) / variant.drives;
  return {.disk = std::max(
              {moved / rates.disk_read, moved / rates.disk_write, 2 * moved / rates.disk_mixed}),
          .update = parameters * kernel_bytes(format) / rates.update / variant.cores,
          .norm = parameters * kGradientBytes / rates.norm / variant.cores,
          .copies = parameters * std::max(kGradientBytes / rates.down, kParameterBytes / rates.up)};
}

double share_in_dram(const MeasuredRates& rates, double parameters, StateFormat format) {
  const double state = parameters * state_bytes(format);
  const auto dram = static_cast<double>(rates.dram_bytes);
  if (dram >= state) return 1;
  return std::max(0.0, dram - static_cast<double>(kSlots * kMostShard)) / state;
}

std::string verdict(const MeasuredRates& rates, double parameters) {
  const double share = share_in_dram(rates, parameters, StateFormat::split);
  const StepCosts costs = costs_of(rates, parameters, StateFormat::split, {.share = share});
  return fmt::format(
      "A step of {:.3g} parameters, {:.0f} % of the state in DRAM, each part alone:\n{}\n"
      "{} limits a step (split): {} of it must be hidden under forward and backward.\n"
      "With\n{}Settings:\n{}"
      "  headrace plan shows the same for your model, with what goes where.\n",
      parameters, 100 * share, table(rates, parameters, share), limit_of(costs),
      seconds(costs.longest()), more(rates, parameters, share), settings(rates, parameters, share));
}

}  // namespace headrace::bench
