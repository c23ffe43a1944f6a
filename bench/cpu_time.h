// CPU time of this process.
#pragma once

namespace headrace::bench {

// Of all its threads so far, user and system.
double cpu_seconds();

}  // namespace headrace::bench
