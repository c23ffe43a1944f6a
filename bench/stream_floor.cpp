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
  const std::byte* grad;
  std::uint16_t* param;
  std::uint32_t* master;
  std::uint16_t* low;
  std::uint32_t* exp_avg;
  std::uint32_t* exp_avg_sq;
  std::size_t count;
  std::uint16_t flip;
};

template <class T, class Grad>
[[gnu::always_inline]] inline void turn(T* __restrict values, const Grad* __restrict grad,
                                        std::uint16_t flip) {
  for (std::size_t at = 0; at < kLine; ++at) {
    values[at] = static_cast<T>(values[at] ^ static_cast<T>(grad[at] & flip));
  }
}

template <class Grad>
[[gnu::always_inline]] inline void walk_fp32(const Streams& to) {
  const auto* const grad = reinterpret_cast<const Grad*>(to.grad);
  for (std::size_t at = 0; at < to.count; at += kLine) {
    turn(to.exp_avg + at, grad + at, to.flip);
    turn(to.exp_avg_sq + at, grad + at, to.flip);
    turn(to.master + at, grad + at, to.flip);
    Line copy;
    for (std::size_t lane = 0; lane < kLine; ++lane) {
      copy.values[lane] = static_cast<std::uint16_t>(to.master[at + lane] >> 16);
    }
    store_past_cache(to.param + at, copy);
  }
}

template <class Grad>
[[gnu::always_inline]] inline void walk_split(const Streams& to) {
  const auto* const grad = reinterpret_cast<const Grad*>(to.grad);
  for (std::size_t at = 0; at < to.count; at += kLine) {
    turn(to.exp_avg + at, grad + at, to.flip);
    turn(to.exp_avg_sq + at, grad + at, to.flip);
    turn(to.low + at, grad + at, to.flip);
    turn(to.param + at, grad + at, to.flip);
  }
}

using Walk = void (*)(const Streams&);

template <class Grad>
void plain_fp32(const Streams& to) {
  walk_fp32<Grad>(to);
}
template <class Grad>
void plain_split(const Streams& to) {
  walk_split<Grad>(to);
}

#ifdef __x86_64__
template <class Grad>
[[gnu::target("avx2")]] void wide_fp32(const Streams& to) {
  walk_fp32<Grad>(to);
}
template <class Grad>
[[gnu::target("avx2")]] void wide_split(const Streams& to) {
  walk_split<Grad>(to);
}
#endif

template <class Grad>
Walk walk_of(StateLayout layout) {
  const bool split = layout == StateLayout::split;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return split ? wide_split<Grad> : wide_fp32<Grad>;
#endif
  return split ? plain_split<Grad> : plain_fp32<Grad>;
}

Streams streams_of(const AdamWRun& run, Part part, std::uint16_t flip) {
  auto* const low = reinterpret_cast<std::uint16_t*>(run.state.master);
  auto* const master = reinterpret_cast<std::uint32_t*>(run.state.master);
  const bool split = run.layout == StateLayout::split;
  return {.grad = run.grad + part.begin * size_of(run.grad_type),
          .param = reinterpret_cast<std::uint16_t*>(run.param) + part.begin,
          .master = split ? nullptr : master + part.begin,
          .low = split ? low + part.begin : nullptr,
          .exp_avg = reinterpret_cast<std::uint32_t*>(run.state.exp_avg) + part.begin,
          .exp_avg_sq = reinterpret_cast<std::uint32_t*>(run.state.exp_avg_sq) + part.begin,
          .count = part.end - part.begin,
          .flip = flip};
}

}  // namespace

std::size_t stream_bytes_per_element(StateLayout layout, ScalarType grad) {
  constexpr std::size_t kParam = 2;
  const std::size_t state = 2 * state_bytes_per_element(layout);
  return size_of(grad) + (layout == StateLayout::split ? 2 : 1) * kParam + state;
}

void stream_floor(const AdamWRun& run, std::uint16_t flip, const Team& team) {
  HEADRACE_CHECK(run.layout != StateLayout::own_master && size_of(run.param_type) == 2 &&
                 run.count % kSegmentElements == 0);
  const Walk walk = size_of(run.grad_type) == 2 ? walk_of<std::uint16_t>(run.layout)
                                                : walk_of<std::uint32_t>(run.layout);
  on_team(team, [&run, flip, &team, walk](int thread) {
    const Part pieces = part_of(run.count / kSegmentElements, thread, team.threads);
    walk(streams_of(run, {pieces.begin * kSegmentElements, pieces.end * kSegmentElements}, flip));
    drain_stores();
  });
}

}  // namespace headrace::bench
