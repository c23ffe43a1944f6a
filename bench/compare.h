// `bench compare A B`: what changed from one report to another, row by row.
//
// Reads two files of to_json (bench/report.h); measures nothing. A row is compared by its samples:
// ratios to the bound where it has one (so that a slower disk on the day of B does not count), its
// values otherwise. The result is always B over A, above 1 is better: times, and all other units
// than rates, are inverted. Call it from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/machine.h"
#include "bench/report.h"
#include "io/status.h"

namespace headrace::bench {

// A row that both reports have.
struct Change {
  std::string name;
  double a = 0;        // the median of A's samples: of bound, or in `unit`
  double b = 0;        // of B's
  std::string unit;    // "of bound", or the row's own
  Quartiles ratio;     // B over A: median over median; low and high are those of the quartiles
                       // furthest apart, so both are on one side of 1 when they do not overlap
  bool noisy = false;  // the quartiles of A or B are wider than a quarter of their median
};

// A report that was compared.
struct Compared {
  std::filesystem::path path;
  Machine machine;
  std::vector<std::string> alone;  // rows that only this one has
};

struct Comparison {
  Compared a;
  Compared b;
  std::vector<Change> changes;              // in the order of A
  std::vector<std::string> machines;        // how the machines differ, in sentences
  std::vector<std::string> not_comparable;  // rows that both have, and why they say nothing
};

// `invalid`, naming file and field, for a file that is no report; and when no row is in both.
Result<Comparison> compare(const std::filesystem::path& a, const std::filesystem::path& b);

// Worse by more than `fail_above` percent, and the quartiles of A and B do not overlap.
bool regressed(const Change& change, double fail_above);

// Any of its rows.
bool regressed(const Comparison& comparison, double fail_above);

// One line per row below one line of titles, then what else a reader must know.
std::string to_table(const Comparison& comparison);

}  // namespace headrace::bench
