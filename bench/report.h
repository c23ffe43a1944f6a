// What a benchmark reports: rows of a measured value beside its bound, as JSON and as a table.
//
// Used by every `headrace bench` command, from one thread. Pure: nothing here measures or prints. A
// round measures a value and its bound a moment apart; a row is the medians over rounds, its ratio
// the median of the rounds' own ratios, so that a drift of the machine cancels out.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "bench/machine.h"
#include "bench/timeline.h"

namespace headrace::bench {

// Median and quartiles, by linear interpolation; all zero when there are no samples.
struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;

  // Distance of the quartiles over the median; 0 when the median is 0.
  double spread() const noexcept;
};

Quartiles quartiles(std::span<const double> samples);

// One round: the measured value and its bound, both in the row's unit.
struct Round {
  double value = 0;
  double bound = 0;
  double cpu = 0;  // CPU seconds per decimal GB that were spent on the value; 0: not counted
};

struct Row {
  std::string name;                 // such as adamw.fp32.1t
  double value = 0;                 // median over rounds
  std::string unit;                 // of value and bound: "GB/s" (decimal) or "s"
  double bound = 0;                 // median over rounds; 0: the row has none, and no ratio
  double ratio = 0;                 // higher is better, 1 is the bound: median of `samples`
  double spread = 0;                // distance of the quartiles of `samples` over their median
  double cpu = 0;                   // CPU seconds per GB, of all threads; median over rounds
  std::vector<double> samples;      // one ratio per round; without a bound, one value per round
  std::vector<double> values = {};  // of each round
  std::vector<double> bounds = {};  // of each round; without a bound, none
};

// What a benchmark hands back: its rows, and in sentences what a reader must know to believe them.
struct Report {
  std::vector<Row> rows;
  std::vector<std::string> notes;
  std::vector<Timeline> timelines = {};  // where they were asked for
};

Row rate_row(std::string name, std::span<const Round> rounds);  // GB/s: value over bound
Row time_row(std::string name, std::span<const Round> rounds);  // s: bound over value
// One value beside its bound, both in `unit`: bound over value.
Row single_row(std::string name, std::string unit, double value, double bound);

// Quartiles wider than a quarter of the median: too noisy to be quoted.
bool noisy(const Row& row) noexcept;

// Whether any row has CPU time.
bool counts_cpu(std::span<const Row> rows) noexcept;

// {"schema": "headrace.bench/1", "machine": {...}, "rows": [...]}, indented, with a final newline.
std::string to_json(const Machine& machine, std::span<const Row> rows);

// A row as people read it: its name, value, bound, ratio, spread, CPU time and rounds; "-" for what
// it does not have. And what these are called.
using Cells = std::array<std::string, 7>;
Cells cells(const Row& row);
Cells titles();

// The rows as lines of text below one line of titles; CPU time if a row has it.
std::string to_table(std::span<const Row> rows);

}  // namespace headrace::bench
