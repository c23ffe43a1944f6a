#include "bench/report_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "bench/sizes.h"

namespace headrace::bench {
namespace {

constexpr double kMostPercent = 200;  // a bar of more ends there
constexpr std::string_view kHow = "Whiskers: quartiles over the rounds.";

// A row whose name tells a size: one point of a line of a plot.
struct Sized {
  std::string plot;   // its title
  std::string line;   // "32 in flight"; empty: the only one
  std::string label;  // of the size, as in the name
  double bytes = 0;
  const Row* row = nullptr;
};

std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// The quartiles of its samples, in its unit.
Quartiles value_of(const Row& row) {
  const Quartiles found = quartiles(row.samples);
  if (!(found.median > 0)) return {row.value, row.value, row.value};
  return {row.value * found.low / found.median, row.value, row.value * found.high / found.median};
}

bool finite(const Row& row) {
  return std::isfinite(row.value) && std::isfinite(row.bound) && std::isfinite(row.ratio) &&
         std::ranges::all_of(row.samples, [](double sample) { return std::isfinite(sample); });
}

// io.DIRECTION.BLOCKxDEPTH, and how where it is not the usual way.
std::optional<Sized> io_point(const Row& row) {
  const std::vector<std::string> parts = parts_of(row.name);
  if (parts.size() < 3 || parts[0] != "io") return std::nullopt;
  const std::size_t cross = parts[2].find('x');
  if (cross == std::string::npos) return std::nullopt;
  const Result<std::uint64_t> bytes = parse_size(parts[2].substr(0, cross));
  if (!bytes.ok() || *bytes == 0) return std::nullopt;
  Sized point{parts[1], parts[2].substr(cross + 1) + " in flight", parts[2].substr(0, cross),
              static_cast<double>(*bytes), &row};
  for (std::size_t i = 3; i < parts.size(); ++i) point.plot += ", " + parts[i];
  return point;
}

// copy.PATH.SIZE
std::optional<Sized> copy_point(const Row& row) {
  static const std::map<std::string, std::string> paths{
      {"up", "host to device"}, {"down", "device to host"},    {"both", "both ways at once"},
      {"host", "host to host"}, {"nvme_up", "NVMe to device"}, {"nvme_down", "device to NVMe"}};
  const std::vector<std::string> parts = parts_of(row.name);
  if (parts.size() != 3 || parts[0] != "copy" || !paths.contains(parts[1])) return std::nullopt;
  const Result<std::uint64_t> bytes = parse_size(parts[2]);
  if (!bytes.ok() || *bytes == 0) return std::nullopt;
  return Sized{paths.at(parts[1]), "", parts[2], static_cast<double>(*bytes), &row};
}

// Where each size has one depth only, they make one line.
void join_lines(std::vector<Sized>& points) {
  std::set<double> sizes;
  for (const Sized& point : points)
    if (!sizes.insert(point.bytes).second) return;
  for (Sized& point : points) {
    if (!point.line.empty())
      point.label += fmt::format(" x {}", point.line.substr(0, point.line.find(' ')));
    point.line = "headrace";
  }
}

// Nothing where all have one size.
std::optional<LinePlot> line_plot(std::vector<Sized> points) {
  join_lines(points);
  std::ranges::stable_sort(points, {}, &Sized::bytes);
  if (points.empty() || points.front().bytes == points.back().bytes) return std::nullopt;
  LinePlot plot{points.front().plot, points.front().row->unit, 0, {}};
  for (const Sized& point : points) {
    auto line = std::ranges::find(plot.lines, point.line, &Line::name);
    if (line == plot.lines.end()) line = plot.lines.insert(line, {point.line, {}});
    line->points.push_back({point.bytes, point.label, value_of(*point.row), point.row->bound});
  }
  return plot;
}

// Plots to be compared have one scale.
void share_scale(std::vector<LinePlot>& plots) {
  double top = 0;
  for (const LinePlot& plot : plots)
    for (const Line& line : plot.lines)
      for (const LinePoint& point : line.points)
        top = std::max({top, point.value.high, point.value.median, point.bound});
  for (LinePlot& plot : plots) plot.top = top;
}

// What is left of a report's rows as its groups take theirs.
class Sorter {
 public:
  explicit Sorter(const Report& report) {
    for (const Row& row : report.rows)
      if (finite(row)) rows_.push_back(&row);
  }

  // Those that `point_of` knows, as plots of lines; what fits none stays.
  template <class PointOf>
  std::vector<LinePlot> take_lines(const PointOf& point_of) {
    std::vector<std::vector<Sized>> by_plot;
    for (const Row* row : rows_) {
      const std::optional<Sized> point = point_of(*row);
      if (!point) continue;
      auto known = std::ranges::find_if(
          by_plot, [&](const auto& points) { return points.front().plot == point->plot; });
      if (known == by_plot.end()) known = by_plot.insert(known, std::vector<Sized>());
      known->push_back(*point);
    }
    std::vector<LinePlot> plots;
    for (const std::vector<Sized>& points : by_plot) {
      std::optional<LinePlot> plot = line_plot(points);
      if (!plot) continue;
      plots.push_back(std::move(*plot));
      for (const Sized& point : points) std::erase(rows_, point.row);
    }
    share_scale(plots);
    return plots;
  }

  template <class Belongs>
  std::vector<const Row*> take(const Belongs& belongs) {
    std::vector<const Row*> taken;
    std::ranges::copy_if(rows_, std::back_inserter(taken),
                         [&](auto* row) { return belongs(*row); });
    std::erase_if(rows_, [&](auto* row) { return belongs(*row); });
    return taken;
  }

 private:
  std::vector<const Row*> rows_;
};

std::string percent_of(const Row& row) {
  return fmt::format("{:.1f} %{}", 100 * row.ratio, noisy(row) ? ", noisy" : "");
}

// Rates, each beside its own bound.
std::vector<BarPlot> rate_bars(std::string title, const std::vector<const Row*>& rows) {
  if (rows.empty()) return {};
  BarPlot plot{std::move(title), rows.front()->unit, 0, {}};
  for (const Row* row : rows)
    plot.bars.push_back(
        {row->name, value_of(*row), row->bound,
         fmt::format("{:.4g} of {:.4g}, {}", row->value, row->bound, percent_of(*row)),
         noisy(*row)});
  return {std::move(plot)};
}

std::vector<BarPlot> percent_bars(std::string title, const std::vector<const Row*>& rows) {
  if (rows.empty()) return {};
  BarPlot plot{std::move(title), "%", kMostPercent, {}};
  for (const Row* row : rows) {
    const Quartiles ratio = quartiles(row->samples);
    plot.bars.push_back({row->name,
                         {100 * ratio.low, 100 * row->ratio, 100 * ratio.high},
                         100,
                         percent_of(*row),
                         noisy(*row)});
  }
  return {std::move(plot)};
}

bool is_yardstick(const Row& row) { return row.bound > 0 && row.name.starts_with("adamw.over_"); }

bool has_floor(const Row& row) {
  return row.bound > 0 && (row.name.starts_with("adamw.") || row.name.starts_with("norm."));
}

std::string with_how(std::string_view text) { return fmt::format("{} {}", text, kHow); }

// A trace that was full has nothing of the last step.
std::vector<Timeline> timelines_of(const Report& report) {
  std::vector<Timeline> timelines = report.timelines;
  std::erase_if(timelines, [](const Timeline& timeline) { return timeline.activities.empty(); });
  return timelines;
}

void add_lines(Sorter& sorter, std::vector<PlotGroup>& groups) {
  groups.push_back({"Bandwidth over the size of a block",
                    with_how("headrace's queue beside a plain io_uring loop of the same blocks."),
                    sorter.take_lines(io_point),
                    {},
                    {}});
  const auto on_disk = [](const Row& row) {
    return row.name.starts_with("copy.nvme") ? copy_point(row) : std::nullopt;
  };
  std::vector<LinePlot> disk = sorter.take_lines(on_disk);
  std::vector<LinePlot> copies = sorter.take_lines(copy_point);
  std::ranges::move(disk, std::back_inserter(copies));
  groups.push_back(
      {"Bandwidth over the size of a move",
       with_how("Beside memcpy; with NVMe beside the slower of memcpy and the raw disk."),
       std::move(copies),
       {},
       {}});
}

void add_bars(Sorter& sorter, std::vector<PlotGroup>& groups) {
  const std::vector<const Row*> others = sorter.take(is_yardstick);
  groups.push_back(
      {"Rate beside the floor of memory",
       with_how("Thick line: plain loads and stores of the same bytes. Dashed bar: noisy."),
       {},
       rate_bars("Rate beside the floor of memory", sorter.take(has_floor)),
       {}});
  groups.push_back(
      {"Update beside those of others",
       with_how(
           "Thick line: the same update by a plain loop, or in three passes. Dashed bar: noisy."),
       {},
       rate_bars("Update beside those of others", others),
       {}});
  const auto bounded = [](const Row& row) { return row.bound > 0; };
  groups.push_back(
      {"Percent of the bound",
       with_how("Higher is better, for times too; thick line: the bound; a tip: the bar goes on. "
                "Dashed bar: noisy."),
       {},
       percent_bars("Percent of the bound", sorter.take(bounded)),
       {}});
}

}  // namespace

std::vector<PlotGroup> plots_of(const Report& report) {
  Sorter sorter(report);
  std::vector<PlotGroup> groups;
  add_lines(sorter, groups);
  groups.push_back(
      {"One step over time",
       "The last step measured of each row: how many operations were under way. load reads state, "
       "update computes it, store writes it back; compute is a forward and backward.",
       {},
       {},
       timelines_of(report)});
  add_bars(sorter, groups);
  std::erase_if(groups, [](const PlotGroup& group) {
    return group.lines.empty() && group.bars.empty() && group.timelines.empty();
  });
  return groups;
}

}  // namespace headrace::bench
