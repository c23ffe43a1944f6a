#include "bench/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "io/bytes.h"

namespace headrace::bench {

namespace {

// Okabe and Ito's colours, those dark enough for lines on white.
constexpr std::string_view kPlotStyle =
    R"(svg { display: block; width: 100%; height: auto; font: 13px sans-serif; fill: #111; }
svg .grid { stroke: #ddd; } svg .axis { stroke: #555; } svg .strong { font-weight: 600; }
svg .soft { fill: #444; } svg .bound { stroke: #111; stroke-width: 3; }
svg .whisker { stroke: #111; stroke-width: 1.3; fill: none; }
svg .c0 { color: #0072b2; } svg .c1 { color: #d55e00; } svg .c2 { color: #009e73; }
svg .c3 { color: #8e4a78; } svg .c4 { color: #111; }
svg .line { stroke: currentColor; stroke-width: 2; fill: none; }
svg .error { stroke: currentColor; stroke-width: 1.2; fill: none; }
svg .dashed { stroke: currentColor; stroke-width: 1.6; stroke-dasharray: 5 4; fill: none; }
svg .area { fill: currentColor; stroke: currentColor; stroke-width: 0.7; }
svg .other { color: #666; }
svg .full { fill: currentColor; stroke: currentColor; }
svg .hollow { fill: #fff; stroke: currentColor; stroke-width: 1.5; }
svg .bar { fill: #8fc3e4; } svg .noisy { fill: #fff; stroke: #0072b2; stroke-dasharray: 3 3; }
)";

constexpr double kLetter = 7;  // width of one, about
constexpr int kColours = 5;

struct Point {
  double x = 0, y = 0;
};

double width_of(std::string_view text) { return kLetter * static_cast<double>(text.size()); }

// Elements one after the other.
class Canvas {
 public:
  void line(Point a, Point b, std::string_view style) {
    body_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", a.x, a.y,
        b.x, b.y, style);
  }
  void path(std::string_view steps, std::string_view style) {
    body_ += fmt::format("<path d=\"{}\" class=\"{}\"/>\n", steps, style);
  }
  // `anchor`: start, middle or end of the text is at the point.
  void text(Point at, std::string_view anchor, std::string_view words,
            std::string_view style = "plain") {
    body_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n",
                    at.x, at.y, anchor, style, escape_markup(words));
  }
  std::string whole(double width, double height, std::string_view title) const {
    return fmt::format(
        "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n", width,
        height, escape_markup(title), body_);
  }

 private:
  std::string body_;
};

// From 0 at `begin` to `top` at `end`, in pixels.
struct Axis {
  double begin = 0, end = 0, top = 1;
  double at(double value) const { return begin + (end - begin) * value / top; }
};

// 1, 2 or 5 times a power of ten: at most `most` of them are in `top`.
double tick_step(double top, int most) {
  const double least = top / most;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

std::vector<double> ticks(double top, int most) {
  const double step = tick_step(top, most);
  std::vector<double> found;
  for (int i = 0; i <= most && i * step <= top * 1.0001; ++i) found.push_back(i * step);
  return found;
}

double largest(double a, const Quartiles& value, double bound) {
  return std::max({a, value.high, value.median, bound});
}

// One of each colour; all about 9 pixels wide.
std::string marker(int index, Point at) {
  constexpr std::array<std::string_view, kColours> shapes{
      "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z", "m-4-4h8v8h-8z", "m0-5.5l5 9h-10z",
      "m0-5.5l5 5.5l-5 5.5l-5-5.5z", "m-1.5-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z"};
  return fmt::format("M{:.1f} {:.1f}{}", at.x, at.y,
                     shapes[static_cast<std::size_t>(index % kColours)]);
}

std::string colour(int index) { return fmt::format("c{}", index % kColours); }

// The activities of a step have one each on every page.
std::string colour_of(std::string_view activity) {
  constexpr std::array<std::string_view, 4> known{"load", "update", "store", "checksum"};
  const auto* const found = std::ranges::find(known, activity);
  return found == known.end() ? "other" : colour(static_cast<int>(found - known.begin()));
}

// A cap at each end.
std::string upright_whisker(double x, double low, double high) {
  return fmt::format("M{:.1f} {:.1f}h6m-3 0V{:.1f}m-3 0h6", x - 3, low, high);
}
std::string lying_whisker(double y, double low, double high) {
  return fmt::format("M{:.1f} {:.1f}v8m0-4H{:.1f}m0-4v8", low, y - 4, high);
}

class LineDrawing {
 public:
  explicit LineDrawing(const LinePlot& plot) : plot_(plot) {
    double top = plot.top;
    for (const Line& line : plot.lines)
      for (const LinePoint& point : line.points) {
        top = largest(top, point.value, point.bound);
        labels_.try_emplace(std::log2(point.x), point.label);
        has_bound_ |= point.bound > 0;
      }
    y_.top = top > 0 ? top * 1.05 : 1;
  }

  std::string drawn() {
    legend();
    axes();
    for (std::size_t i = 0; i < plot_.lines.size(); ++i) line(static_cast<int>(i));
    return canvas_.whole(kWidth, kHeight, plot_.title);
  }

 private:
  static constexpr double kWidth = 460, kHeight = 300, kLeft = 50, kRight = 432, kBottom = 262;

  double x_of(double x) const {
    const double first = labels_.begin()->first, last = labels_.rbegin()->first;
    const double share = last > first ? (std::log2(x) - first) / (last - first) : 0.5;
    return kLeft + 24 + share * (kRight - kLeft - 24);
  }

  // A colour's line and marker, and what it is; then the bound's.
  void legend() {
    double x = kLeft, y = 14;
    const auto entry = [&](std::string_view name, std::string_view style, int index, bool bound) {
      if (x + 34 + width_of(name) > kWidth) x = kLeft, y += 20;
      canvas_.line({x, y}, {x + 28, y}, fmt::format("{} {}", style, bound ? "dashed" : "line"));
      canvas_.path(marker(index, {x + 14, y}),
                   fmt::format("{} {}", style, bound ? "hollow" : "full"));
      canvas_.text({x + 34, y + 4}, "start", name);
      x += 34 + width_of(name) + 14;
    };
    for (int i = 0; i < static_cast<int>(plot_.lines.size()); ++i)
      entry(plot_.lines[static_cast<std::size_t>(i)].name, colour(i), i, false);
    if (has_bound_) entry("bound", plot_.lines.size() == 1 ? "c0" : "c4", 0, true);
    canvas_.text({6, y + 26}, "start", plot_.unit, "soft");
    y_.begin = kBottom;
    y_.end = y + 36;
  }

  void axes() {
    for (const double tick : ticks(y_.top, 7)) {
      canvas_.line({kLeft, y_.at(tick)}, {kRight + 14, y_.at(tick)}, tick > 0 ? "grid" : "axis");
      canvas_.text({kLeft - 8, y_.at(tick) + 4}, "end", fmt::format("{:.4g}", tick));
    }
    double free_from = 0;
    for (const auto& [place, label] : labels_) {
      const double x = x_of(std::exp2(place));
      canvas_.line({x, kBottom}, {x, kBottom + 5}, "axis");
      if (x - width_of(label) / 2 < free_from) continue;
      canvas_.text({x, kBottom + 20}, "middle", label);
      free_from = x + width_of(label) / 2 + 4;
    }
  }

  void line(int index) {
    std::string values, bounds, marks, hollow, errors;
    for (const LinePoint& point : plot_.lines[static_cast<std::size_t>(index)].points) {
      const Point at{x_of(point.x), y_.at(point.value.median)};
      values += fmt::format("{}{:.1f} {:.1f}", values.empty() ? 'M' : 'L', at.x, at.y);
      marks += marker(index, at);
      errors += upright_whisker(at.x, y_.at(point.value.low), y_.at(point.value.high));
      if (point.bound <= 0) continue;
      const Point bound{at.x, y_.at(point.bound)};
      bounds += fmt::format("{}{:.1f} {:.1f}", bounds.empty() ? 'M' : 'L', bound.x, bound.y);
      hollow += marker(index, bound);
    }
    const std::string style = colour(index);
    canvas_.path(bounds, style + " dashed");
    canvas_.path(hollow, style + " hollow");
    canvas_.path(values, style + " line");
    canvas_.path(errors, style + " error");
    canvas_.path(marks, style + " full");
  }

  const LinePlot& plot_;
  std::map<double, std::string> labels_;  // by place on the logarithmic axis
  bool has_bound_ = false;
  Axis y_;
  Canvas canvas_;
};

class BarDrawing {
 public:
  explicit BarDrawing(const BarPlot& plot) : plot_(plot) {
    double names = 0, texts = 0, top = 0;
    for (const Bar& bar : plot.bars) {
      names = std::max(names, width_of(bar.name));
      texts = std::max(texts, width_of(bar.text));
      top = largest(top, bar.value, bar.bound);
    }
    if (plot.most > 0) top = std::min(top, plot.most);
    x_ = {names + 10, kWidth - texts - 24, top > 0 ? top * 1.02 : 1};
  }

  std::string drawn() {
    const double bottom = kPitch * static_cast<double>(plot_.bars.size()) + 4;
    for (const double tick : ticks(x_.top, 6)) {
      canvas_.line({x_.at(tick), 0}, {x_.at(tick), bottom}, tick > 0 ? "grid" : "axis");
      canvas_.text({x_.at(tick), bottom + 16}, "middle", fmt::format("{:.4g}", tick));
    }
    canvas_.text({x_.end + 24, bottom + 16}, "start", plot_.unit, "soft");
    for (std::size_t i = 0; i < plot_.bars.size(); ++i)
      bar(plot_.bars[i], kPitch * (static_cast<double>(i) + 0.5) + 2);
    return canvas_.whole(kWidth, bottom + 24, plot_.title);
  }

 private:
  static constexpr double kWidth = 920, kPitch = 26, kHalf = 8;

  void bar(const Bar& bar, double y) {
    const bool cut = bar.value.median > x_.top;
    const double end = x_.at(std::min(bar.value.median, x_.top));
    canvas_.text({x_.begin - 8, y + 4}, "end", bar.name);
    canvas_.path(
        fmt::format("M{:.1f} {:.1f}H{:.1f}{}H{:.1f}z", x_.begin, y - kHalf, cut ? end - kHalf : end,
                    cut ? fmt::format("l{0} {0}l-{0} {0}", kHalf) : fmt::format("v{}", 2 * kHalf),
                    x_.begin),
        bar.noisy ? "noisy" : "bar");
    if (bar.value.high > bar.value.low && bar.value.low < x_.top)
      canvas_.path(lying_whisker(y, x_.at(bar.value.low), x_.at(std::min(bar.value.high, x_.top))),
                   "whisker");
    if (bar.bound > 0 && bar.bound <= x_.top)
      canvas_.line({x_.at(bar.bound), y - kHalf - 3}, {x_.at(bar.bound), y + kHalf + 3}, "bound");
    canvas_.text({x_.end + 24, y + 4}, "start", bar.text);
  }

  const BarPlot& plot_;
  Axis x_;
  Canvas canvas_;
};

class TimelineDrawing {
 public:
  explicit TimelineDrawing(const Timeline& timeline)
      : timeline_(timeline), x_{kLeft, kRight, std::max(timeline.seconds * 1e3, 1e-6)} {}

  std::string drawn() {
    const double bottom = kPitch * static_cast<double>(timeline_.activities.size());
    for (const double tick : ticks(x_.top, 8)) {
      canvas_.line({x_.at(tick), 0}, {x_.at(tick), bottom + 4}, "grid");
      canvas_.text({x_.at(tick), bottom + 20}, "middle", fmt::format("{:.4g}", tick));
    }
    canvas_.text({kRight + 4, bottom + 36}, "end", "milliseconds since the step began", "soft");
    for (std::size_t i = 0; i < timeline_.activities.size(); ++i)
      lane(timeline_.activities[i], static_cast<int>(i));
    return canvas_.whole(kWidth, bottom + 42, timeline_.name);
  }

 private:
  static constexpr double kWidth = 920, kLeft = 170, kRight = 900, kPitch = 58, kHigh = 42;

  void lane(const Activity& activity, int index) {
    const double base = kPitch * (index + 1) - 6;
    const Axis y{base, base - kHigh, static_cast<double>(activity.most)};
    std::string steps = fmt::format("M{:.1f} {:.1f}", kLeft, base);
    for (const Level& level : activity.levels)
      steps += fmt::format("H{:.1f}V{:.1f}", x_.at(level.seconds * 1e3), y.at(level.count));
    canvas_.path(steps + "z", colour_of(activity.name) + " area");
    canvas_.line({kLeft, base}, {kRight, base}, "axis");
    canvas_.text({0, base - 28}, "start", activity.name, "strong");
    canvas_.text({0, base - 13}, "start", how_much(activity), "soft");
    if (activity.most == 1) return;
    canvas_.text({0, base + 2}, "start", fmt::format("at most {} at once", activity.most), "soft");
  }

  std::string how_much(const Activity& activity) const {
    const double busy = 100 * activity.busy_seconds * 1e3 / x_.top;
    const std::string bytes = activity.bytes > 0 ? format_bytes(activity.bytes) + ", " : "";
    return fmt::format("{}{:.0f} % of the time", bytes, busy);
  }

  const Timeline& timeline_;
  const Axis x_;
  Canvas canvas_;
};

}  // namespace

std::string_view plot_style() noexcept { return kPlotStyle; }

std::string escape_markup(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else if (c == '"') {
      safe += "&quot;";
    } else {
      const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f;
      safe += control ? ' ' : c;
    }
  }
  return safe;
}

std::string svg(const LinePlot& plot) { return LineDrawing(plot).drawn(); }
std::string svg(const BarPlot& plot) { return BarDrawing(plot).drawn(); }
std::string svg(const Timeline& timeline) { return TimelineDrawing(timeline).drawn(); }

}  // namespace headrace::bench
