#include "bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/report_file.h"

namespace headrace::bench {
namespace {

using RowsByName = std::map<std::string_view, const Row*>;

RowsByName by_name(const std::vector<Row>& rows) {
  RowsByName named;
  for (const Row& row : rows) named[row.name] = &row;
  return named;
}

bool larger_is_better(const Row& row) { return row.bound > 0 || row.unit.ends_with("/s"); }

// Why two rows of one name cannot be set against each other.
std::optional<std::string> obstacle(const Row& a, const Row& b) {
  if (a.unit != b.unit) return fmt::format("{} in A, {} in B", a.unit, b.unit);
  if ((a.bound > 0) != (b.bound > 0))
    return fmt::format("only {} has a bound", a.bound > 0 ? "A" : "B");
  if (quartiles(a.samples).median <= 0 || quartiles(b.samples).median <= 0)
    return "nothing was measured";
  return std::nullopt;
}

bool wide(const Quartiles& found) { return found.spread() > 0.25; }

Change change_of(const Row& a, const Row& b) {
  const Quartiles from = quartiles(a.samples);
  const Quartiles to = quartiles(b.samples);
  Change change{.name = a.name, .a = from.median, .b = to.median};
  change.unit = a.bound > 0 ? "of bound" : a.unit;
  change.noisy = wide(from) || wide(to);
  const bool larger = larger_is_better(a);
  const Quartiles& over = larger ? to : from;
  const Quartiles& under = larger ? from : to;
  change.ratio = {over.low / under.high, over.median / under.median, over.high / under.low};
  return change;
}

std::vector<std::string> differences(const Machine& a, const Machine& b) {
  std::vector<std::string> found;
  const auto compare = [&found](std::string_view what, const auto& in_a, const auto& in_b) {
    if (in_a != in_b) found.push_back(fmt::format("{}: {} in A, {} in B", what, in_a, in_b));
  };
  compare("CPU", a.cpu, b.cpu);
  compare("cores", a.cores, b.cores);
  compare("bytes of memory", a.memory_bytes, b.memory_bytes);
  compare("kernel", a.kernel, b.kernel);
  compare("disk", a.disk, b.disk);
  compare("file system", a.file_system, b.file_system);
  compare("compiler", a.compiler, b.compiler);
  return found;
}

std::vector<std::string> only_in(const std::vector<Row>& rows, const RowsByName& others) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    if (!others.contains(row.name)) names.push_back(row.name);
  }
  return names;
}

void add_changes(const std::vector<Row>& rows, const RowsByName& others, Comparison& comparison) {
  for (const Row& row : rows) {
    const auto other = others.find(row.name);
    if (other == others.end()) continue;
    if (const auto why = obstacle(row, *other->second)) {
      comparison.not_comparable.push_back(fmt::format("{}: {}", row.name, *why));
    } else {
      comparison.changes.push_back(change_of(row, *other->second));
    }
  }
}

std::string amount(double number, const std::string& unit) {
  return unit == "of bound" ? fmt::format("{:.1f} %", number * 100)
                            : fmt::format("{:.4g} {}", number, unit);
}

std::string remark(const Change& change) {
  std::string text;
  if (change.ratio.low > 1) text += "  better";
  if (change.ratio.high < 1) text += "  worse";
  if (change.noisy) text += "  noisy";
  return text;
}

std::string lines_of(const std::vector<Change>& changes) {
  std::size_t width = 4;
  for (const Change& change : changes) width = std::max(width, change.name.size());
  std::string text = fmt::format("{:<{}}  {:>12}  {:>12}  {:>8}  {:>13}\n", "row", width, "A", "B",
                                 "B over A", "quartiles");
  for (const Change& change : changes) {
    text += fmt::format(
        "{:<{}}  {:>12}  {:>12}  {:>8.3f}  {:>13}{}\n", change.name, width,
        amount(change.a, change.unit), amount(change.b, change.unit), change.ratio.median,
        fmt::format("{:.3f}-{:.3f}", change.ratio.low, change.ratio.high), remark(change));
  }
  return text;
}

std::string source_line(std::string_view letter, const Compared& report) {
  return fmt::format("{}: {} (headrace {}, {})\n", letter, report.path.string(),
                     report.machine.version, report.machine.date);
}

}  // namespace

Result<Comparison> compare(const std::filesystem::path& a, const std::filesystem::path& b) {
  HEADRACE_ASSIGN(const ReportFile before, read_report(a));
  HEADRACE_ASSIGN(const ReportFile after, read_report(b));
  Comparison comparison{.a = {a, before.machine, only_in(before.rows, by_name(after.rows))},
                        .b = {b, after.machine, only_in(after.rows, by_name(before.rows))},
                        .machines = differences(before.machine, after.machine)};
  add_changes(before.rows, by_name(after.rows), comparison);
  if (comparison.changes.empty())
    return invalid(fmt::format("{} and {} have no row to compare", a.string(), b.string()));
  return comparison;
}

bool regressed(const Change& change, double fail_above) {
  return change.ratio.high < 1 && change.ratio.median < 1 - fail_above / 100;
}

bool regressed(const Comparison& comparison, double fail_above) {
  return std::any_of(comparison.changes.begin(), comparison.changes.end(),
                     [fail_above](const Change& change) { return regressed(change, fail_above); });
}

std::string to_table(const Comparison& comparison) {
  std::string text = source_line("A", comparison.a) + source_line("B", comparison.b);
  text += lines_of(comparison.changes);
  for (const std::string& name : comparison.a.alone) text += fmt::format("only in A: {}\n", name);
  for (const std::string& name : comparison.b.alone) text += fmt::format("only in B: {}\n", name);
  for (const std::string& why : comparison.not_comparable)
    text += fmt::format("not comparable: {}\n", why);
  for (const std::string& how : comparison.machines)
    text += fmt::format("other machine: {}\n", how);
  return text;
}

}  // namespace headrace::bench
