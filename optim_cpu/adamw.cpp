#include "optim_cpu/adamw.h"

#include <algorithm>
#include <cmath>

#include "optim_cpu/adamw_kernel.h"

namespace headrace {
namespace {

constexpr std::size_t kPiece = kSegmentElements;
// Waking a thread costs some microseconds: what these pieces take one.
constexpr std::size_t kPiecesPerThread = 32 * 1024 / kPiece;

// Updates the pieces [part.begin, part.end) of all runs, counted through.
void update_part(std::span<const AdamWRun> runs, Part part, AdamWKernel kernel) {
  std::size_t before = 0;  // pieces in the runs passed
  for (const AdamWRun& run : runs) {
    const std::size_t pieces = run.count / kPiece;
    const std::size_t begin = std::clamp(part.begin, before, before + pieces) - before;
    const std::size_t end = std::clamp(part.end, before, before + pieces) - before;
    if (begin < end) kernel(run, begin * kPiece, end * kPiece);
    before += pieces;
  }
}

}  // namespace

AdamWScalars adamw_scalars(const AdamW& group, std::uint64_t step, double grad_factor) {
  const auto t = static_cast<double>(step);
  const double correction1 = 1 - std::pow(group.beta1, t);
  const double correction2 = 1 - std::pow(group.beta2, t);
  const double decay = group.lr * group.weight_decay;
  const auto rounded = [](double value) { return static_cast<float>(value); };
  return {.grad_factor = rounded(grad_factor),
          .beta1 = rounded(group.beta1),
          .one_minus_beta1 = rounded(1 - group.beta1),
          .beta2 = rounded(group.beta2),
          .one_minus_beta2 = rounded(1 - group.beta2),
          .inv_sqrt_correction2 = rounded(1 / std::sqrt(correction2)),
          .eps = rounded(group.eps),
          .step_size = rounded(group.lr / correction1),
          .decay = rounded(group.decoupled ? decay : 0),
          .coupled_decay = rounded(group.decoupled ? 0 : group.weight_decay)};
}

void adamw_update(std::span<const AdamWRun> runs, const Team& team) {
  std::size_t pieces = 0;
  for (const AdamWRun& run : runs) pieces += run.count / kPiece;
  if (pieces == 0) return;
  const AdamWKernel kernel = adamw_kernel(team.target);
  const int worth = static_cast<int>(std::min<std::size_t>(pieces / kPiecesPerThread + 1, 4096));
  const Team some{.threads = std::clamp(team.threads, 1, worth), .target = team.target};
  on_team(some,
          [&](int thread) { update_part(runs, part_of(pieces, thread, some.threads), kernel); });
}

}  // namespace headrace
