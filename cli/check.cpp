#include "cli/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "io/bytes.h"
#include "runtime/checkpoint_format.h"

namespace headrace::cli {
namespace {

constexpr int kWhole = 0, kDamaged = 1, kUsage = 2, kLacking = 3;

int code_for(const Status& status) {
  if (status.code() == Code::corrupt) return kDamaged;
  return status.code() == Code::invalid ? kUsage : kLacking;
}

// A line that is written over, on terminals only.
class Progress {
 public:
  void show(std::uint64_t done, std::uint64_t total) {
    const auto percent = static_cast<int>(
        total == 0 ? 100.0 : 100.0 * static_cast<double>(done) / static_cast<double>(total));
    if (!terminal_ || percent == shown_) return;
    shown_ = percent;
    fmt::print(stderr, "\rchecking {:3} % of {} ", percent, format_bytes(total));
  }
  void clear() const {
    if (shown_ >= 0) fmt::print(stderr, "\r{:40}\r", "");
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  int shown_ = -1;
};

std::string line_of(const BadBlock& block, std::uint64_t generation) {
  return fmt::format("  {} {}: elements {} to {}, at byte {} of {}\n", block.tensor,
                     name_of(block.kind), block.begin, block.end, block.file_offset,
                     data_name(generation));
}

std::string damage_of(const CheckReport& report) {
  std::string text =
      fmt::format("{} of {} blocks are not what was saved:\n", report.bad_blocks, report.blocks);
  for (const BadBlock& block : report.bad) text += line_of(block, report.generation);
  if (report.bad_blocks > report.bad.size())
    text += fmt::format("  and {} more\n", report.bad_blocks - report.bad.size());
  return text + "Use another checkpoint, or a copy of this one.\n";
}

}  // namespace

std::string text_of(const CheckReport& report, const std::filesystem::path& folder) {
  const std::string head =
      fmt::format("{}: save {}, {} tensors, {} parameters, {} of state in {} blocks\n",
                  folder.string(), report.generation, report.tensors, report.parameters,
                  format_bytes(report.bytes), report.blocks);
  if (!report.whole()) return head + damage_of(report);
  return head + fmt::format("Every block is what was saved ({:.2f} s).\n", report.seconds);
}

int run_check(const CheckRequest& request) {
  Progress progress;
  CheckOptions options;
  options.threads = request.threads;
  options.progress = [&progress](std::uint64_t done, std::uint64_t total) {
    progress.show(done, total);
  };
  const Result<CheckReport> report = check_checkpoint(request.folder, options);
  progress.clear();
  if (!report.ok()) {
    fmt::print(stderr, "headrace check: {}\n", report.status().message());
    return code_for(report.status());
  }
  fmt::print("{}", text_of(*report, request.folder));
  return report->whole() ? kWhole : kDamaged;
}

}  // namespace headrace::cli
