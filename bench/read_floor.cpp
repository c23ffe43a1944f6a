#include "bench/read_floor.h"

#include <atomic>

#include "io/check.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kStreams = 4;
// A vector of 256 bits, or what the compiler makes of it.
typedef std::uint64_t Vector __attribute__((vector_size(32), may_alias));
constexpr std::size_t kLine = 2;  // vectors of a cache line

using Words = const std::uint64_t*;

[[gnu::always_inline]] inline std::uint64_t walk(Words block, std::size_t words) {
  const auto* const first = reinterpret_cast<const Vector*>(block);
  const std::size_t quarter = words * sizeof *block / (kStreams * sizeof(Vector));
  Vector sums[kStreams * kLine] = {};
  for (std::size_t at = 0; at < quarter; at += kLine) {
    for (std::size_t i = 0; i < kStreams * kLine; ++i) {
      sums[i] ^= first[i / kLine * quarter + at + i % kLine];
    }
  }
  for (std::size_t i = 1; i < kStreams * kLine; ++i) sums[0] ^= sums[i];
  return sums[0][0] ^ sums[0][1] ^ sums[0][2] ^ sums[0][3];
}

using Walk = std::uint64_t (*)(Words, std::size_t);

std::uint64_t plain(Words block, std::size_t words) { return walk(block, words); }

#ifdef __x86_64__
[[gnu::target("avx2")]] std::uint64_t wide(Words block, std::size_t words) {
  return walk(block, words);
}
#endif

Walk best_walk() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return wide;
#endif
  return plain;
}

}  // namespace

std::uint64_t read_floor(ConstBytes bytes, std::size_t block_bytes, const Team& team) {
  HEADRACE_CHECK(block_bytes % (kStreams * kLine * sizeof(Vector)) == 0 &&
                 bytes.size() % block_bytes == 0);
  const Walk block = best_walk();
  const auto* const words = reinterpret_cast<Words>(bytes.data());
  const std::size_t block_words = block_bytes / sizeof(std::uint64_t);
  std::atomic<std::uint64_t> sum{0};
  on_team(team, [&](int thread) {
    const Part part = part_of(bytes.size() / block_bytes, thread, team.threads);
    std::uint64_t mine = 0;
    for (std::size_t at = part.begin; at < part.end; ++at) {
      mine ^= block(words + at * block_words, block_words);
    }
    sum ^= mine;
  });
  return sum;
}

}  // namespace headrace::bench
