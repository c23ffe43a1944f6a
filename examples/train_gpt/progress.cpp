#include "examples/train_gpt/progress.h"

#include <unistd.h>

#include <string_view>

#include <fmt/format.h>

namespace train_gpt {
namespace {

// A line that cannot be shown is no reason to stop.
void put(int file, std::string_view text) {
  if (::write(file, text.data(), text.size()) < 0) return;
}

}  // namespace

ProgressLine::ProgressLine(int file) : file_(file), terminal_(::isatty(file) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_) put(file_, "\n");
}

void ProgressLine::show(const StepFacts& facts) {
  if (!terminal_) return;
  shown_ = true;
  put(file_, fmt::format("\r{}\x1B[K", to_line(facts)));
}

std::string to_line(const StepFacts& facts) {
  return fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  step {:.3f} s  exposed {:.3f} s",
                     facts.step, facts.last_step, facts.loss, facts.tokens_per_second,
                     facts.seconds, facts.exposed_seconds);
}

}  // namespace train_gpt
