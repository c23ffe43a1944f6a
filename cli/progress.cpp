#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace headrace::cli {
namespace {

constexpr std::chrono::milliseconds kBetween{100};

volatile std::sig_atomic_t noted = 0;

void note(int) { noted = 1; }

}  // namespace

void note_interrupts() {
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
}

bool interrupted() noexcept { return noted != 0; }

ProgressLine::ProgressLine()
    : terminal_(::isatty(STDERR_FILENO) == 1), begin_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() { clear(); }

bool ProgressLine::due() const noexcept {
  return terminal_ && (!shown_ || std::chrono::steady_clock::now() - last_ >= kBetween);
}

void ProgressLine::show(const std::string& text) {
  if (!due()) return;
  last_ = std::chrono::steady_clock::now();
  shown_ = true;
  const std::chrono::duration<double> passed = last_ - begin_;
  fmt::print(stderr, "\r\033[K{:6.1f} s, {}", passed.count(), text);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

bench::RoundWatch watch_rounds(ProgressLine& line) {
  return [&line](const std::string& where) {
    if (interrupted()) return Status(Code::cancelled, "interrupted at " + where);
    line.show(where);
    return Status();
  };
}

}  // namespace headrace::cli
