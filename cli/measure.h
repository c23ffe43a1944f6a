// What `headrace plan --measure FOLDER` measures instead of assuming.
#pragma once

#include "cli/plan.h"

namespace headrace::cli {

// Sets the rates of the disk below options.measure, and of the optimizer on this CPU, in about ten
// seconds. Code::unavailable without io_uring, out_of_space without room for half a GB.
Status measure_machine(PlanOptions& options);

}  // namespace headrace::cli
