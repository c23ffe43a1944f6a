#include "cli/progress.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "cli/outcome.h"

namespace headrace::cli {
namespace {

TEST(Progress, CtrlCEndsABenchmarkAtItsNextRoundWith130) {
  EXPECT_EXIT(
      {
        note_interrupts();
        ProgressLine line;
        const bench::RoundWatch watch = watch_rounds(line);
        if (!watch("step.fp32, round 1").ok()) std::exit(1);
        std::raise(SIGINT);
        std::exit(fail("bench", watch("step.fp32, round 2")));
      },
      testing::ExitedWithCode(kInterrupted), "interrupted at step.fp32, round 2");
}

TEST(Progress, NothingIsShownWhereThereIsNoTerminal) {
  ProgressLine line;
  EXPECT_FALSE(line.due());
}

}  // namespace
}  // namespace headrace::cli
