#include "bench/stream_floor.h"

#include <array>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "io/check.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kLine = 32;  // elements of 16 bits in a cache line

struct alignas(64) Line {
  std::array<std::uint16_t, kLine> values;
};

// Stores one whole line without reading it first, as the update stores its 16-bit copy.
inline void store_past_cache(std::uint16_t* to, const Line& line) {
#ifdef __SSE2__
  const auto* const from = reinterpret_cast<const __m128i*>(line.values.data());
  auto* const target = reinterpret_cast<__m128i*>(to);
  for (int part = 0; part < 4; ++part) {
    _mm_stream_si128(target + part, _mm_load_si128(from + part));
  }
#else
  for (std::size_t at = 0; at < kLine; ++at) to[at] = line.values[at];
#endif
}

inline void drain_stores() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// The streams of one thread's part. Masters are the halves in split, bits of floats elsewhere.
struct Streams {
  const std::uint16_t* grad;
  std::uint16_t* param;
  std::uint32_t* master;
  std::uint16_t* low;
  std::uint32_t* exp_avg;
  std::uint32_t* exp_avg_sq;
  std::size_t count;
  std::uint16_t flip;
};

template <class T>
[[gnu::always_inline]] inline void turn(T* __restrict values, const std::uint16_t* __restrict grad,
                                        std::uint16_t flip) {
  for (std::size_t at = 0; at < kLine; ++at) {
    values[at] = static_cast<T>(values[at] ^ static_cast<T>(grad[at] & flip));
  }
}

[[gnu::always_inline]] inline void walk_fp32(const Streams& to) {
  for (std::size_t at = 0; at < to.count; at += kLine) {
    turn(to.exp_avg + at, to.grad + at, to.flip);
    turn(to.exp_avg_sq + at, to.grad + at, to.flip);
    turn(to.master + at, to.grad + at, to.flip);
    Line copy;
    for (std::size_t lane = 0; lane < kLine; ++lane) {
      copy.values[lane] = static_cast<std::uint16_t>(to.master[at + lane] >> 16);
    }
    store_past_cache(to.param + at, copy);
  }
}

[[gnu::always_inline]] inline void walk_split(const Streams& to) {
  for (std::size_t at = 0; at < to.count; at += kLine) {
    turn(to.exp_avg + at, to.grad + at, to.flip);
    turn(to.exp_avg_sq + at, to.grad + at, to.flip);
    turn(to.low + at, to.grad + at, to.flip);
    turn(to.param + at, to.grad + at, to.flip);
  }
}

using Walk = void (*)(const Streams&);

void plain_fp32(const Streams& to) { walk_fp32(to); }
void plain_split(const Streams& to) { walk_split(to); }

#ifdef __x86_64__
[[gnu::target("avx2")]] void wide_fp32(const Streams& to) { walk_fp32(to); }
[[gnu::target("avx2")]] void wide_split(const Streams& to) { walk_split(to); }
#endif

Walk walk_of(StateLayout layout) {
  const bool split = layout == StateLayout::split;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return split ? wide_split : wide_fp32;
#endif
  return split ? plain_split : plain_fp32;
}

Streams streams_of(const AdamWRun& run, Part part, std::uint16_t flip) {
  auto* const low = reinterpret_cast<std::uint16_t*>(run.state.master);
  auto* const master = reinterpret_cast<std::uint32_t*>(run.state.master);
  const bool split = run.layout == StateLayout::split;
  return {.grad = reinterpret_cast<const std::uint16_t*>(run.grad) + part.begin,
          .param = reinterpret_cast<std::uint16_t*>(run.param) + part.begin,
          .master = split ? nullptr : master + part.begin,
          .low = split ? low + part.begin : nullptr,
          .exp_avg = reinterpret_cast<std::uint32_t*>(run.state.exp_avg) + part.begin,
          .exp_avg_sq = reinterpret_cast<std::uint32_t*>(run.state.exp_avg_sq) + part.begin,
          .count = part.end - part.begin,
          .flip = flip};
}

}  // namespace

std::size_t stream_bytes_per_element(StateLayout layout) {
  constexpr std::size_t kGrad = 2;
  constexpr std::size_t kParam = 2;
  const std::size_t state = 2 * state_bytes_per_element(layout);
  return layout == StateLayout::split ? kGrad + 2 * kParam + state : kGrad + kParam + state;
}

void stream_floor(const AdamWRun& run, std::uint16_t flip, const Team& team) {
  HEADRACE_CHECK(run.layout != StateLayout::own_master && run.grad_type == ScalarType::bf16 &&
                 run.param_type == ScalarType::bf16 && run.count % kSegmentElements == 0);
  const Walk walk = walk_of(run.layout);
  on_team(team, [&run, flip, &team, walk](int thread) {
    const Part pieces = part_of(run.count / kSegmentElements, thread, team.threads);
    walk(streams_of(run, {pieces.begin * kSegmentElements, pieces.end * kSegmentElements}, flip));
    drain_stores();
  });
}

}  // namespace headrace::bench
