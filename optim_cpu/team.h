// A team: how many threads, and which instructions, an optimizer call runs with.
//
// A call runs on the calling thread and threads - 1 others, kept by OpenMP for that calling thread,
// and returns when all are done. Work is cut in contiguous static ranges. No result depends on the
// team: any count and any target give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace headrace {

struct Team {
  int threads = 1;
  std::int64_t target = 0;  // one of available_targets(); 0: the best of this machine
};

// CPUs in the calling thread's affinity mask, at least 1.
int affinity_threads();

// The instruction sets that are compiled in and that this machine has, best first, as Highway
// target bits. The last is plain scalar code, which every machine has.
std::vector<std::int64_t> available_targets();
std::string target_name(std::int64_t target);

struct Part {
  std::size_t begin = 0, end = 0;
};

// The part of `count` pieces that is one thread's: contiguous, in order, equal but for one piece.
constexpr Part part_of(std::size_t count, int thread, int threads) noexcept {
  const auto t = static_cast<std::size_t>(thread), n = static_cast<std::size_t>(threads);
  const std::size_t each = count / n, rest = count % n;
  return {each * t + (t < rest ? t : rest), each * (t + 1) + (t + 1 < rest ? t + 1 : rest)};
}

// Calls body(0) ... body(threads - 1), each once, on the team's threads.
void on_team(const Team& team, const std::function<void(int thread)>& body);

}  // namespace headrace
