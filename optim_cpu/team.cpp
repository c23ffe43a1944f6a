#include "optim_cpu/team.h"

#include <sched.h>

#include <cerrno>
#include <memory>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace headrace {
namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};

// 0 if the mask has more CPUs than `cpus`, or cannot be read.
int cpus_in_mask(std::size_t cpus) {
  const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(cpus));
  const std::size_t size = CPU_ALLOC_SIZE(cpus);
  if (!set || sched_getaffinity(0, size, set.get()) != 0) return 0;
  return CPU_COUNT_S(size, set.get());
}

}  // namespace

int affinity_threads() {
  for (std::size_t cpus = 1024; cpus <= 1024 * 1024; cpus *= 2) {
    if (const int count = cpus_in_mask(cpus); count > 0) return count;
  }
  return 1;
}

#ifdef _OPENMP
void on_team(const Team& team, const std::function<void(int thread)>& body) {
  if (team.threads <= 1) return body(0);
#pragma omp parallel num_threads(team.threads)
  {
    // The team may be smaller than asked for: OMP_THREAD_LIMIT, or a call from a parallel region.
    const int step = omp_get_num_threads();
    for (int thread = omp_get_thread_num(); thread < team.threads; thread += step) body(thread);
  }
}
#else
void on_team(const Team& team, const std::function<void(int thread)>& body) {
  for (int thread = 0; thread == 0 || thread < team.threads; ++thread) body(thread);
}
#endif

}  // namespace headrace
