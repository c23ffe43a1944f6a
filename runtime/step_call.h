// The call step(): checks, waits for the one thing a step waits for, decides, and queues.
#pragma once

#include "runtime/parts.h"

namespace headrace {

// Takes the engine's mutex itself; see Engine::step.
Result<StepReport> step_call(EngineParts& parts, const StepOptions& options);

}  // namespace headrace
