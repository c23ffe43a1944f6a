// Plots as inline SVG for a page of HTML: lines over sizes, bars beside bounds, a step over time.
//
// Pure, from any thread. All text is escaped. Colours are those that colour-blind people tell
// apart, and what they tell is told by markers, dashes and places too, for prints in grey. They are
// classes of plot_style(), which a page has once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/report.h"
#include "bench/timeline.h"

namespace headrace::bench {

// For a <style>.
std::string_view plot_style() noexcept;

// For text between tags and inside of quoted attributes; control characters become spaces.
std::string escape_markup(std::string_view text);

struct LinePoint {
  double x = 1;       // above 0, on a logarithmic axis
  std::string label;  // below it on the axis
  Quartiles value;
  double bound = 0;  // 0: none
};

struct Line {
  std::string name;
  std::vector<LinePoint> points;  // in order of x
};

// Values from 0 upwards, each line beside its bound, dashed.
struct LinePlot {
  std::string title;
  std::string unit;
  double top = 0;  // of the axis at least; 0: what the points need
  std::vector<Line> lines;
};
std::string svg(const LinePlot& plot);

struct Bar {
  std::string name;
  Quartiles value;
  double bound = 0;  // 0: none
  std::string text;  // to its right
  bool noisy = false;
};

struct BarPlot {
  std::string title;
  std::string unit;
  double most = 0;  // longer bars end there, with a tip; 0: none does
  std::vector<Bar> bars;
};
std::string svg(const BarPlot& plot);

// How many operations of each activity were under way, over time.
std::string svg(const Timeline& timeline);

}  // namespace headrace::bench
