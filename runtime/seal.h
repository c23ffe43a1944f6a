// Sealing: from the tensors added and the budgets to shards with homes.
#pragma once

#include "runtime/parts.h"

namespace headrace {

// With the engine's mutex held. On failure nothing stays allocated.
Status seal(EngineParts& parts);

// Cancels what has not started, drains the rest, and lets every tier go; what does not end in time
// keeps its memory. Without the mutex; the phase is closed.
Status tear_down(EngineParts& parts, Nanoseconds timeout);

}  // namespace headrace
