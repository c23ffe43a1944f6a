#include "bench/adam_yardstick.h"

#include <cmath>

#include "io/check.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kPiece = 256;  // that ranges are cut by, and a multiple of eight vectors

struct Streams {
  float* __restrict param;
  float* __restrict exp_avg;
  float* __restrict exp_avg_sq;
  const float* __restrict grad;
};

// Eight vectors of 512 bits, or sixteen of 256, by the compiler.
constexpr std::size_t kBlock = 128;

struct alignas(64) Block {
  float values[kBlock];
};

[[gnu::always_inline]] inline Block loaded(const float* __restrict from) {
  Block block;
  for (std::size_t i = 0; i < kBlock; ++i) block.values[i] = from[i];
  return block;
}

[[gnu::always_inline]] inline void store(const Block& block, float* __restrict to) {
  for (std::size_t i = 0; i < kBlock; ++i) to[i] = block.values[i];
}

// All of a block is loaded, then taken through one operation after the other, then stored.
[[gnu::always_inline]] inline void update(const Streams& at, const AdamWScalars& by) {
  Block g = loaded(at.grad);
  Block m = loaded(at.exp_avg);
  Block v = loaded(at.exp_avg_sq);
  Block p = loaded(at.param);
  for (std::size_t i = 0; i < kBlock; ++i) {
    m.values[i] = std::fma(by.beta1, m.values[i], by.one_minus_beta1 * g.values[i]);
  }
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float squared = g.values[i] * g.values[i];
    v.values[i] = std::fma(by.beta2, v.values[i], by.one_minus_beta2 * squared);
  }
  for (std::size_t i = 0; i < kBlock; ++i) {
    g.values[i] = m.values[i] / std::fma(std::sqrt(v.values[i]), by.inv_sqrt_correction2, by.eps);
  }
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float decayed = std::fma(-by.decay, p.values[i], p.values[i]);
    p.values[i] = std::fma(-by.step_size, g.values[i], decayed);
  }
  store(p, at.param);
  store(m, at.exp_avg);
  store(v, at.exp_avg_sq);
}

[[gnu::always_inline]] inline void loop(const YardstickRun& run, Part part) {
  const AdamWScalars scalars = run.scalars;
  for (std::size_t i = part.begin; i < part.end; i += kBlock) {
    update({run.param.data() + i, run.exp_avg.data() + i, run.exp_avg_sq.data() + i,
            run.grad.data() + i},
           scalars);
  }
}

[[gnu::always_inline]] inline void scale(const YardstickRun& run, Part part) {
  const float factor = run.scalars.grad_factor;
  for (float& grad : run.grad.subspan(part.begin, part.end - part.begin)) grad *= factor;
}

[[gnu::always_inline]] inline void cast(const YardstickRun& run, Part part) {
  const float* __restrict const from = run.param.data();
  std::uint16_t* __restrict const to = run.low_param.data();
  for (std::size_t i = part.begin; i < part.end; ++i) to[i] = bf16_of_float(from[i]);
}

using Pass = void (*)(const YardstickRun&, Part);

// One text, for the instructions that every machine has and for those of wider ones.
struct Passes {
  Pass scale, loop, cast;
};

void plain_scale(const YardstickRun& run, Part part) { scale(run, part); }
void plain_loop(const YardstickRun& run, Part part) { loop(run, part); }
void plain_cast(const YardstickRun& run, Part part) { cast(run, part); }

#ifdef __x86_64__
#define HEADRACE_WIDE [[gnu::target("avx2,fma")]]
#define HEADRACE_WIDEST [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,fma")]]
HEADRACE_WIDE void wide_scale(const YardstickRun& run, Part part) { scale(run, part); }
HEADRACE_WIDE void wide_loop(const YardstickRun& run, Part part) { loop(run, part); }
HEADRACE_WIDE void wide_cast(const YardstickRun& run, Part part) { cast(run, part); }
HEADRACE_WIDEST void widest_scale(const YardstickRun& run, Part part) { scale(run, part); }
HEADRACE_WIDEST void widest_loop(const YardstickRun& run, Part part) { loop(run, part); }
HEADRACE_WIDEST void widest_cast(const YardstickRun& run, Part part) { cast(run, part); }
#undef HEADRACE_WIDE
#undef HEADRACE_WIDEST
#endif

Passes passes() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return {widest_scale, widest_loop, widest_cast};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {wide_scale, wide_loop, wide_cast};
  }
#endif
  return {plain_scale, plain_loop, plain_cast};
}

void on_ranges(const YardstickRun& run, const Team& team, Pass pass) {
  const std::size_t count = run.param.size();
  HEADRACE_CHECK(count % kPiece == 0 && run.exp_avg.size() == count &&
                 run.exp_avg_sq.size() == count && run.grad.size() == count);
  on_team(team, [&](int thread) {
    const Part pieces = part_of(count / kPiece, thread, team.threads);
    pass(run, {pieces.begin * kPiece, pieces.end * kPiece});
  });
}

}  // namespace

void adam_loop(const YardstickRun& run, const Team& team) { on_ranges(run, team, passes().loop); }

void adam_three_passes(const YardstickRun& run, const Team& team) {
  HEADRACE_CHECK(run.low_param.size() == run.param.size());
  on_ranges(run, team, passes().scale);
  on_ranges(run, team, passes().loop);
  on_ranges(run, team, passes().cast);
}

}  // namespace headrace::bench
