// One text, compiled once for each instruction set that has a fused multiply-add, and once as plain
// scalar code. Design and measurements: 32 elements at a time, so that the 16-bit copy leaves in
// whole cache lines past the caches; every other stream is updated in place with regular stores,
// because non-temporal ones there cost 15-60 %.
#include "optim_cpu/adamw_kernel.h"

#include <cmath>
#include <cstdlib>

// Nothing without a fused multiply-add but the scalar fallback, which calls std::fma. EMU128, the
// other fallback, is miscompiled by some compilers.
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_NEON | HWY_AVX2 | HWY_AVX3))
#define HWY_BROKEN_EMU128 1
#define HWY_COMPILE_ALL_ATTAINABLE
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim_cpu/adamw_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace headrace {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;
using Float = hn::Vec<Floats>;
using Word = hn::Vec<Words>;

constexpr std::size_t kLanes = HWY_LANES(float);
constexpr std::size_t kLine = 32;       // elements whose 16-bit copies fill a cache line
constexpr std::size_t kAhead = 256;     // elements between a prefetch and its use
constexpr std::size_t kFloatLine = 16;  // floats in a cache line

struct Constants {
  Float grad_factor, beta1, one_minus_beta1, beta2, one_minus_beta2;
  Float inv_sqrt_correction2, eps, step_size, decay, coupled_decay;
};

struct Streams {
  std::byte* master;
  std::byte* param;
  const std::byte* grad;
  float* exp_avg;
  float* exp_avg_sq;
};

struct Element {
  Float p, m, v;
};

HWY_INLINE float* floats(std::byte* at, std::size_t i) { return reinterpret_cast<float*>(at) + i; }
HWY_INLINE const float* floats(const std::byte* at, std::size_t i) {
  return reinterpret_cast<const float*>(at) + i;
}
HWY_INLINE std::uint16_t* halves(std::byte* at, std::size_t i) {
  return reinterpret_cast<std::uint16_t*>(at) + i;
}
HWY_INLINE const std::uint16_t* halves(const std::byte* at, std::size_t i) {
  return reinterpret_cast<const std::uint16_t*>(at) + i;
}

HWY_INLINE Float fused(Float a, Float b, Float c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  return hn::Set(Floats(), std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
#endif
}

// The 16-bit values are in the low halves of the words.
HWY_INLINE Word words_of(const std::uint16_t* from) {
  return hn::PromoteTo(Words(), hn::Load(Halves(), from));
}

// Sign-extended.
HWY_INLINE Word signed_words_of(const std::uint16_t* from) {
  const hn::RebindToSigned<Words> words;
  const hn::Rebind<std::int16_t, Floats> signed_halves;
  const auto low = hn::Load(signed_halves, reinterpret_cast<const std::int16_t*>(from));
  return hn::BitCast(Words(), hn::PromoteTo(words, low));
}

HWY_INLINE Float fp16_at(const std::uint16_t* from) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Floats(), float_of_fp16(*from));
#else
  const hn::Rebind<hwy::float16_t, Floats> fp16;
  return hn::PromoteTo(Floats(), hn::Load(fp16, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
}

// 16-bit values of two vectors of floats, in order.
#if HWY_TARGET == HWY_SCALAR
struct Pair {
  std::uint16_t first, second;
};

HWY_INLINE Pair low_halves(Word first, Word second) {
  return {static_cast<std::uint16_t>(hn::GetLane(first)),
          static_cast<std::uint16_t>(hn::GetLane(second))};
}

HWY_INLINE Pair high_halves(Word first, Word second) {
  return low_halves(hn::ShiftRight<16>(first), hn::ShiftRight<16>(second));
}

HWY_INLINE Pair fp16_pair(Float first, Float second) {
  return {fp16_of_float(hn::GetLane(first)), fp16_of_float(hn::GetLane(second))};
}

template <bool past_caches>
HWY_INLINE void store_pair(Pair pair, std::uint16_t* to) {
  to[0] = pair.first;
  to[1] = pair.second;
}
#else
using Pairs = hn::Repartition<std::uint16_t, Floats>;
using Pair = hn::Vec<Pairs>;

HWY_INLINE Pair low_halves(Word first, Word second) {
  return hn::ConcatEven(Pairs(), hn::BitCast(Pairs(), second), hn::BitCast(Pairs(), first));
}

HWY_INLINE Pair high_halves(Word first, Word second) {
  return hn::ConcatOdd(Pairs(), hn::BitCast(Pairs(), second), hn::BitCast(Pairs(), first));
}

HWY_INLINE Pair fp16_pair(Float first, Float second) {
  const hn::Rebind<hwy::float16_t, Floats> fp16;
  return hn::Combine(Pairs(), hn::BitCast(Halves(), hn::DemoteTo(fp16, second)),
                     hn::BitCast(Halves(), hn::DemoteTo(fp16, first)));
}

template <bool past_caches>
HWY_INLINE void store_pair(Pair pair, std::uint16_t* to) {
  if (past_caches) {
    hn::Stream(pair, Pairs(), to);
  } else {
    hn::Store(pair, Pairs(), to);
  }
}
#endif

HWY_INLINE Pair bf16_pair(Float first, Float second) {
  const Word half = hn::Set(Words(), 0x8000);
  return high_halves(hn::Add(hn::BitCast(Words(), first), half),
                     hn::Add(hn::BitCast(Words(), second), half));
}

template <ScalarType type>
HWY_INLINE Float loaded(const std::byte* from, std::size_t i) {
  if constexpr (type == ScalarType::fp32) return hn::Load(Floats(), floats(from, i));
  if constexpr (type == ScalarType::fp16) return fp16_at(halves(from, i));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(words_of(halves(from, i))));
}

template <StateLayout layout>
HWY_INLINE Float master_at(const Streams& s, std::size_t i) {
  if constexpr (layout == StateLayout::fp32) return hn::Load(Floats(), floats(s.master, i));
  if constexpr (layout == StateLayout::own_master) return hn::Load(Floats(), floats(s.param, i));
  const Word high = hn::ShiftLeft<16>(words_of(halves(s.param, i)));
  return hn::BitCast(Floats(), hn::Add(high, signed_words_of(halves(s.master, i))));
}

template <StateLayout layout, ScalarType param>
HWY_INLINE void store_masters(Float first, Float second, const Streams& s, std::size_t i) {
  if constexpr (layout == StateLayout::split) {
    const Pair low = low_halves(hn::BitCast(Words(), first), hn::BitCast(Words(), second));
    store_pair<false>(low, halves(s.master, i));
    store_pair<false>(bf16_pair(first, second), halves(s.param, i));
    return;
  }
  std::byte* const master = layout == StateLayout::fp32 ? s.master : s.param;
  hn::Store(first, Floats(), floats(master, i));
  hn::Store(second, Floats(), floats(master, i + kLanes));
  if constexpr (param == ScalarType::bf16) {
    store_pair<true>(bf16_pair(first, second), halves(s.param, i));
  } else if constexpr (param == ScalarType::fp16) {
    store_pair<true>(fp16_pair(first, second), halves(s.param, i));
  }
}

HWY_INLINE Element updated(const Element& e, Float grad, const Constants& c) {
  const Float g = fused(c.coupled_decay, e.p, hn::Mul(grad, c.grad_factor));
  const Float m = fused(c.beta1, e.m, hn::Mul(c.one_minus_beta1, g));
  const Float v = fused(c.beta2, e.v, hn::Mul(hn::Mul(c.one_minus_beta2, g), g));
  const Float u = hn::Div(m, fused(hn::Sqrt(v), c.inv_sqrt_correction2, c.eps));
  return {hn::Sub(e.p, fused(c.decay, e.p, hn::Mul(c.step_size, u))), m, v};
}

// p is NaN where any of the three is: m and v both go into it.
HWY_INLINE Element with_one_nan(const Element& e) {
  const auto bad = hn::IsNaN(e.p);
  const Float nan = hn::BitCast(Floats(), hn::Set(Words(), kNanBits));
  return {hn::IfThenElse(bad, nan, e.p), hn::IfThenElse(bad, nan, e.m),
          hn::IfThenElse(bad, nan, e.v)};
}

HWY_INLINE void store_moments(const Element& e, const Streams& s, std::size_t i) {
  hn::Store(e.m, Floats(), s.exp_avg + i);
  hn::Store(e.v, Floats(), s.exp_avg_sq + i);
}

template <StateLayout layout, ScalarType grad>
HWY_INLINE Element updated_at(const Streams& s, std::size_t i, const Constants& c) {
  const Element old{master_at<layout>(s, i), hn::Load(Floats(), s.exp_avg + i),
                    hn::Load(Floats(), s.exp_avg_sq + i)};
  return updated(old, loaded<grad>(s.grad, i), c);
}

template <StateLayout layout, ScalarType param, ScalarType grad>
HWY_INLINE void update_two(const Streams& s, std::size_t i, const Constants& c) {
  Element first = updated_at<layout, grad>(s, i, c);
  Element second = updated_at<layout, grad>(s, i + kLanes, c);
  const auto bad = hn::Or(hn::IsNaN(first.p), hn::IsNaN(second.p));
  if (HWY_UNLIKELY(!hn::AllFalse(Floats(), bad))) {
    first = with_one_nan(first);
    second = with_one_nan(second);
  }
  store_masters<layout, param>(first.p, second.p, s, i);
  store_moments(first, s, i);
  store_moments(second, s, i + kLanes);
}

HWY_INLINE void prefetch_floats(const float* from) {
  hwy::Prefetch(from);
  hwy::Prefetch(from + kFloatLine);
}

template <ScalarType type>
HWY_INLINE void prefetch_line(const std::byte* from, std::size_t i) {
  if constexpr (type == ScalarType::fp32) {
    prefetch_floats(floats(from, i));
  } else {
    hwy::Prefetch(halves(from, i));
  }
}

template <StateLayout layout, ScalarType grad>
HWY_INLINE void prefetch(const Streams& s, std::size_t i) {
  prefetch_line<grad>(s.grad, i);
  prefetch_floats(s.exp_avg + i);
  prefetch_floats(s.exp_avg_sq + i);
  if constexpr (layout == StateLayout::fp32) prefetch_line<ScalarType::fp32>(s.master, i);
  if constexpr (layout == StateLayout::own_master) prefetch_line<ScalarType::fp32>(s.param, i);
  if constexpr (layout == StateLayout::split) {
    prefetch_line<ScalarType::bf16>(s.master, i);
    prefetch_line<ScalarType::bf16>(s.param, i);
  }
}

HWY_INLINE Constants constants_of(const AdamWScalars& s) {
  const Floats d;
  return {
      hn::Set(d, s.grad_factor),  hn::Set(d, s.beta1),           hn::Set(d, s.one_minus_beta1),
      hn::Set(d, s.beta2),        hn::Set(d, s.one_minus_beta2), hn::Set(d, s.inv_sqrt_correction2),
      hn::Set(d, s.eps),          hn::Set(d, s.step_size),       hn::Set(d, s.decay),
      hn::Set(d, s.coupled_decay)};
}

template <StateLayout layout, ScalarType param, ScalarType grad>
void update_as(const AdamWRun& run, std::size_t begin, std::size_t end) {
  const Constants c = constants_of(run.scalars);
  const Streams s{run.state.master, run.param, run.grad, run.state.exp_avg, run.state.exp_avg_sq};
  for (std::size_t line = begin; line < end; line += kLine) {
    prefetch<layout, grad>(s, line + kAhead);
    for (std::size_t i = line; i < line + kLine; i += 2 * kLanes)
      update_two<layout, param, grad>(s, i, c);
  }
  hwy::FlushStream();
}

template <StateLayout layout, ScalarType param>
void update_by_grad(const AdamWRun& run, std::size_t begin, std::size_t end) {
  switch (run.grad_type) {
    case ScalarType::fp32:
      return update_as<layout, param, ScalarType::fp32>(run, begin, end);
    case ScalarType::bf16:
      return update_as<layout, param, ScalarType::bf16>(run, begin, end);
    case ScalarType::fp16:
      return update_as<layout, param, ScalarType::fp16>(run, begin, end);
  }
}

void update(const AdamWRun& run, std::size_t begin, std::size_t end) {
  switch (run.layout) {
    case StateLayout::own_master:
      return update_by_grad<StateLayout::own_master, ScalarType::fp32>(run, begin, end);
    case StateLayout::split:
      return update_by_grad<StateLayout::split, ScalarType::bf16>(run, begin, end);
    case StateLayout::fp32:
      if (run.param_type == ScalarType::bf16)
        return update_by_grad<StateLayout::fp32, ScalarType::bf16>(run, begin, end);
      return update_by_grad<StateLayout::fp32, ScalarType::fp16>(run, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace {
namespace {

struct Compiled {
  std::int64_t target;
  AdamWKernel kernel;
};

constexpr Compiled kCompiled[] = {
// best first
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, &N_AVX3::update},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, &N_AVX2::update},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, &N_NEON::update},
#endif
    {HWY_SCALAR, &N_SCALAR::update},
};

// Asked once: the question is a CPUID, which takes microseconds in a virtual machine.
bool runs_here(std::int64_t target) {
  static const std::int64_t supported = hwy::SupportedTargets();
  return target == HWY_SCALAR || (supported & target) != 0;
}

}  // namespace

std::vector<std::int64_t> available_targets() {
  std::vector<std::int64_t> targets;
  for (const Compiled& compiled : kCompiled) {
    if (runs_here(compiled.target)) targets.push_back(compiled.target);
  }
  return targets;
}

std::string target_name(std::int64_t target) { return hwy::TargetName(target); }

AdamWKernel adamw_kernel(std::int64_t target) {
  for (const Compiled& compiled : kCompiled) {
    const bool wanted = target == 0 || target == compiled.target;
    if (wanted && runs_here(compiled.target)) return compiled.kernel;
  }
  std::abort();
}

}  // namespace headrace
#endif  // HWY_ONCE
