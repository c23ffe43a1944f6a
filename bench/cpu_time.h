// CPU time of this process.
#pragma once

namespace headrace::bench {

// Of all its threads so far, user and system.
double cpu_seconds();

// Of the threads that the kernel runs for this process's io_uring and that live now; counted in
// cpu_seconds, too. Direct transfers need none.
double kernel_worker_seconds();

}  // namespace headrace::bench
