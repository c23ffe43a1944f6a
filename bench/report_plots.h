// Which plots a report's rows allow: decided by their names (bench/README.md says whose they are).
//
// Pure, from any thread. Every row with a bound is in one plot and no more; those that no plot
// knows, or that are alone in theirs, are bars of percent of their bound.
#pragma once

#include <string>
#include <vector>

#include "bench/report.h"
#include "bench/svg_plot.h"

namespace headrace::bench {

// Plots that belong together, below one heading.
struct PlotGroup {
  std::string title;
  std::string text;  // how to read them
  std::vector<LinePlot> lines;
  std::vector<BarPlot> bars;
  std::vector<Timeline> timelines;
};

// None of them is empty.
std::vector<PlotGroup> plots_of(const Report& report);

}  // namespace headrace::bench
