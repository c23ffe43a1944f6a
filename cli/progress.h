// What a long command shows while it runs, and how Ctrl-C ends it: the command finds out at the
// next round or operation, takes down what it made, and ends with kInterrupted.
#pragma once

#include <chrono>
#include <string>

#include "bench/round_watch.h"

namespace headrace::cli {

// From here on SIGINT and SIGTERM are only noted.
void note_interrupts();
bool interrupted() noexcept;

// One line that is written over, on terminals only; at most ten times a second. The line is cleared
// when the object goes.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool due() const noexcept;  // whether to compose a text at all
  void show(const std::string& text);
  void clear();

 private:
  const bool terminal_;
  bool shown_ = false;
  const std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point last_;
};

// Shows where a benchmark is; `cancelled` once interrupted. `line` outlives it.
bench::RoundWatch watch_rounds(ProgressLine& line);

}  // namespace headrace::cli
