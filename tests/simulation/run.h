// Runs a program on a simulated machine beside the reference, and tells the first thing that is
// not as it must be:
//
//   bits           what a call gives after it said ok is the reference's, to the bit
//   failures       a call fails only when it is illegal, or a fault has struck that explains it
//   refusals       an illegal call is refused with its code; once poisoned, an engine stays so
//   no deadlock    and no wait longer than its deadline, in virtual time
//   memory         none is held after close()
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/simulation/counts.h"
#include "tests/simulation/program.h"

namespace headrace::simulation {

struct Outcome {
  std::optional<std::string> violation;
  std::size_t at = 0;  // the operation; the program's size: at the end
  Counts counts;
};

Outcome run(const Machine& machine, const Program& program);

}  // namespace headrace::simulation
