// Sealing: from the tensors added and the budgets to shards with homes.
#pragma once

#include "runtime/parts.h"

namespace headrace {

// With the engine's mutex held. On failure nothing stays allocated.
Status seal(EngineParts& parts);

}  // namespace headrace
