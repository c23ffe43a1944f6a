// close: from a sealed engine back to nothing, whatever runs at that moment.
//
// New calls are refused, work that has not started is cancelled, calls in progress and started work
// are waited for. While something has not ended, all that it may touch stays.
#pragma once

#include "runtime/parts.h"

namespace headrace {

// Code::timeout when something still runs then: a call on another thread, or work that never ends.
// May be called again, from any thread.
Status close(EngineParts& parts, Nanoseconds timeout);
// After a seal() that failed, with the mutex: gives back what it took. What does not end in time
// stays, and the engine is closed.
void undo_seal(EngineParts& parts);
// The parts of an engine that is no more, while something still runs: they stay until the process
// ends.
void keep(std::unique_ptr<EngineParts> parts);

}  // namespace headrace
