// One line on a terminal that is written over at each step; nothing anywhere else.
#pragma once

#include <cstdint>
#include <string>

namespace train_gpt {

struct StepFacts {
  std::uint64_t step = 0, last_step = 0;
  double loss = 0, tokens_per_second = 0, seconds = 0, exposed_seconds = 0;
};

class ProgressLine {
 public:
  explicit ProgressLine(int file);  // a descriptor; shown only if it is a terminal
  ~ProgressLine();                  // leaves the last line standing
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const StepFacts& facts);

 private:
  int file_;
  bool terminal_;
  bool shown_ = false;
};

std::string to_line(const StepFacts& facts);

}  // namespace train_gpt
