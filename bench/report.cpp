#include "bench/report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/bytes.h"

namespace headrace::bench {
namespace {

using Json = nlohmann::ordered_json;

double at_fraction(std::span<const double> sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

std::vector<double> each_of(std::span<const Round> rounds, double Round::*member) {
  std::vector<double> picked;
  for (const Round& round : rounds) picked.push_back(round.*member);
  return picked;
}

// Whether a larger value is the better one (a rate) or the smaller one (a time).
enum class Better { larger, smaller };

double ratio_of(const Round& round, Better better) {
  return better == Better::larger ? round.value / round.bound : round.bound / round.value;
}

Row row_of(std::span<const Round> rounds, Better better) {
  Row row;
  row.values = each_of(rounds, &Round::value);
  row.bounds = each_of(rounds, &Round::bound);
  row.value = quartiles(row.values).median;
  row.bound = quartiles(row.bounds).median;
  row.cpu = quartiles(each_of(rounds, &Round::cpu)).median;
  if (row.bound == 0) row.bounds.clear();
  for (const Round& round : rounds) {
    row.samples.push_back(row.bound > 0 ? ratio_of(round, better) : round.value);
  }
  const Quartiles found = quartiles(row.samples);
  row.ratio = row.bound > 0 ? found.median : 0;
  row.spread = found.spread();
  return row;
}

Json json_of(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"memory_bytes", machine.memory_bytes},
          {"kernel", machine.kernel},
          {"disk", machine.disk},
          {"file_system", machine.file_system},
          {"date", machine.date},
          {"version", machine.version},
          {"compiler", machine.compiler}};
}

Json json_of(const Row& row) {
  const auto or_null = [](double number) { return number > 0 ? Json(number) : Json(nullptr); };
  return {{"name", row.name},
          {"value", row.value},
          {"unit", row.unit},
          {"bound", or_null(row.bound)},
          {"ratio", or_null(row.ratio)},
          {"spread", row.spread},
          {"cpu_seconds_per_gb", or_null(row.cpu)},
          {"samples", row.samples},
          {"values", row.values},
          {"bounds", row.bounds}};
}

std::string amount(double number, const std::string& unit) {
  if (number > 0 && unit == "B") return format_bytes(static_cast<std::uint64_t>(number));
  return number > 0 ? fmt::format("{:.4g} {}", number, unit) : "-";
}

}  // namespace

double Quartiles::spread() const noexcept { return median != 0 ? (high - low) / median : 0; }

Quartiles quartiles(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return {at_fraction(sorted, 0.25), at_fraction(sorted, 0.5), at_fraction(sorted, 0.75)};
}

Row rate_row(std::string name, std::span<const Round> rounds) {
  Row row = row_of(rounds, Better::larger);
  row.name = std::move(name);
  row.unit = std::string("GB/s");
  return row;
}

Row time_row(std::string name, std::span<const Round> rounds) {
  Row row = row_of(rounds, Better::smaller);
  row.name = std::move(name);
  row.unit = std::string("s");
  return row;
}

Row single_row(std::string name, std::string unit, double value, double bound) {
  const Round round{value, bound};
  Row row = time_row(std::move(name), {&round, 1});
  row.unit = std::move(unit);
  return row;
}

bool noisy(const Row& row) noexcept { return row.spread > 0.25; }

bool counts_cpu(std::span<const Row> rows) noexcept {
  return std::ranges::any_of(rows, [](const Row& row) { return row.cpu > 0; });
}

std::string to_json(const Machine& machine, std::span<const Row> rows) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(json_of(row));
  const Json report = {
      {"schema", "headrace.bench/1"}, {"machine", json_of(machine)}, {"rows", std::move(list)}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Cells titles() { return {"row", "value", "bound", "of bound", "spread", "CPU s/GB", "rounds"}; }

Cells cells(const Row& row) {
  return {row.name,
          amount(row.value, row.unit),
          amount(row.bound, row.unit),
          row.bound > 0 ? fmt::format("{:.1f} %", row.ratio * 100) : "-",
          fmt::format("{:.1f} %", row.spread * 100),
          row.cpu > 0 ? fmt::format("{:.3f}", row.cpu) : "-",
          fmt::format("{}", row.samples.size())};
}

std::string to_table(std::span<const Row> rows) {
  std::size_t width = 4;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  const bool cpu = counts_cpu(rows);
  const auto line = [&](const Cells& cells) {
    return fmt::format("{:<{}}  {:>12}  {:>12}  {:>8}  {:>7}{}  {:>6}", cells[0], width, cells[1],
                       cells[2], cells[3], cells[4], cpu ? fmt::format("  {:>8}", cells[5]) : "",
                       cells[6]);
  };
  std::string text = line(titles()) + "\n";
  for (const Row& row : rows) {
    text += line(cells(row));
    text += noisy(row) ? "  noisy\n" : "\n";
  }
  return text;
}

}  // namespace headrace::bench
