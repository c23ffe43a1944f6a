// One text, compiled once for each instruction set that has a fused multiply-add, and once as plain
// scalar code. The order of additions is the same for all: a block is four quarters, walked side by
// side in rows of 16 elements, each element of the row with a sum of its own.
#include "optim_cpu/grad_norm_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "optim_cpu/convert.h"
#include "optim_cpu/team.h"

#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_NEON | HWY_AVX2 | HWY_AVX3))
#define HWY_BROKEN_EMU128 1
#define HWY_COMPILE_ALL_ATTAINABLE
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim_cpu/grad_norm_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace headrace {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kRow = 16, kQuarters = 4;
// Rows summed in fp32 before they go into doubles. Over a whole block the rounding of bf16 squares,
// ties more often than not, would cost 2e-6 of the sum, always downwards.
constexpr std::size_t kRowsInFp32 = 128;

// At most 8 lanes, so that a row is at least two vectors: one of the even and one of the odd
// elements where bf16 is read in pairs.
using Floats = hn::CappedTag<float, 8>;
using Words = hn::RebindToUnsigned<Floats>;
using Float = hn::Vec<Floats>;
using Word = hn::Vec<Words>;

constexpr std::size_t kLanes = std::min<std::size_t>(HWY_LANES(float), 8);
constexpr std::size_t kVectors = kRow / kLanes;

struct Row {
  Float values[kVectors];
};

struct Sums {
  Row quarters[kQuarters];
  Word largest;
};

HWY_INLINE Float fused(Float a, Float b, Float c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  return hn::Set(Floats(), std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
#endif
}

HWY_INLINE Float fp16_at(const std::byte* at) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Floats(), float_of_fp16(*reinterpret_cast<const std::uint16_t*>(at)));
#else
  const hn::Rebind<hwy::float16_t, Floats> fp16;
  return hn::PromoteTo(Floats(), hn::LoadU(fp16, reinterpret_cast<const hwy::float16_t*>(at)));
#endif
}

// Vectors 2k and 2k + 1 of a bf16 row: the even and the odd elements, or, one by one, as they come.
HWY_INLINE void load_bf16(const std::byte* at, Float& first, Float& second) {
#if HWY_TARGET == HWY_SCALAR
  first = hn::Set(Floats(), float_at(at, ScalarType::bf16, 0));
  second = hn::Set(Floats(), float_at(at, ScalarType::bf16, 1));
#else
  const Word pairs = hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(at));
  first = hn::BitCast(Floats(), hn::ShiftLeft<16>(pairs));
  second = hn::BitCast(Floats(), hn::And(pairs, hn::Set(Words(), 0xffff0000)));
#endif
}

template <ScalarType type>
HWY_INLINE Row row_at(const std::byte* at) {
  Row row;
  for (std::size_t k = 0; k < kVectors; ++k) {
    if constexpr (type == ScalarType::fp32)
      row.values[k] = hn::LoadU(Floats(), reinterpret_cast<const float*>(at) + k * kLanes);
    if constexpr (type == ScalarType::fp16) row.values[k] = fp16_at(at + 2 * k * kLanes);
    if constexpr (type == ScalarType::bf16) {
      if (k % 2 == 0) load_bf16(at + 2 * k * kLanes, row.values[k], row.values[k + 1]);
    }
  }
  return row;
}

HWY_INLINE Word magnitude(Float value) {
  return hn::And(hn::BitCast(Words(), value), hn::Set(Words(), 0x7fffffff));
}

HWY_INLINE void add_row(const Row& row, Row& sums, Word& largest) {
  for (std::size_t k = 0; k < kVectors; ++k) {
    largest = hn::Max(largest, magnitude(row.values[k]));
    sums.values[k] = fused(row.values[k], row.values[k], sums.values[k]);
  }
}

// Rows [begin, end) of each quarter; a quarter has `rows`.
template <ScalarType type>
HWY_INLINE Sums sums_of(const std::byte* block, std::size_t rows, Part part) {
  Sums sums;
  sums.largest = hn::Zero(Words());
  for (Row& quarter : sums.quarters)
    for (Float& value : quarter.values) value = hn::Zero(Floats());
  constexpr std::size_t kBytes = kRow * size_of(type);
  for (std::size_t r = part.begin; r < part.end; ++r) {
    for (std::size_t q = 0; q < kQuarters; ++q)
      add_row(row_at<type>(block + (q * rows + r) * kBytes), sums.quarters[q], sums.largest);
  }
  return sums;
}

// The sums of a block, in the order of the vectors.
struct Totals {
  double lanes[kQuarters * kRow] = {};
  std::uint32_t largest = 0;
};

HWY_INLINE void add_sums(const Sums& sums, Totals& totals) {
  HWY_ALIGN float values[kQuarters * kRow];
  for (std::size_t q = 0; q < kQuarters; ++q)
    for (std::size_t k = 0; k < kVectors; ++k)
      hn::Store(sums.quarters[q].values[k], Floats(), values + q * kRow + k * kLanes);
  for (std::size_t i = 0; i < kQuarters * kRow; ++i) totals.lanes[i] += double{values[i]};
  HWY_ALIGN std::uint32_t largest[kLanes];
  hn::Store(sums.largest, Words(), largest);
  for (const std::uint32_t one : largest) totals.largest = std::max(totals.largest, one);
}

// Where the sums of element i, counted over the rows of all quarters, are.
template <ScalarType type>
constexpr std::size_t lane_of(std::size_t i) {
  if (type != ScalarType::bf16 || kLanes == 1) return i;
  const std::size_t pair = i % (2 * kLanes);
  return i - pair + (pair % 2) * kLanes + pair / 2;
}

template <ScalarType type>
BlockScan scan_as(const std::byte* block, std::size_t count) {
  const std::size_t rows = count / (kQuarters * kRow), rest = rows * kQuarters * kRow;
  Totals totals;
  for (std::size_t begin = 0; begin < rows; begin += kRowsInFp32)
    add_sums(sums_of<type>(block, rows, {begin, std::min(begin + kRowsInFp32, rows)}), totals);
  for (std::size_t i = rest; i < count; ++i) {
    const float value = float_at(block, type, i);
    totals.largest = std::max(totals.largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffu);
    totals.lanes[lane_of<type>(i - rest)] += double{value} * double{value};
  }
  double sum = 0;
  for (std::size_t i = 0; i < kQuarters * kRow; ++i) sum += totals.lanes[lane_of<type>(i)];
  return {.sum_of_squares = sum, .largest_magnitude = totals.largest};
}

BlockScan scan(const std::byte* block, ScalarType type, std::size_t count) {
  switch (type) {
    case ScalarType::fp32:
      return scan_as<ScalarType::fp32>(block, count);
    case ScalarType::bf16:
      return scan_as<ScalarType::bf16>(block, count);
    default:
      return scan_as<ScalarType::fp16>(block, count);
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
  NormKernel kernel;
};

constexpr Compiled kCompiled[] = {
// best first
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, &N_AVX3::scan},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, &N_AVX2::scan},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, &N_NEON::scan},
#endif
    {HWY_SCALAR, &N_SCALAR::scan},
};

}  // namespace

NormKernel norm_kernel(std::int64_t target) {
  const std::int64_t wanted = target == 0 ? available_targets().front() : target;
  for (const Compiled& compiled : kCompiled) {
    if (compiled.target == wanted) return compiled.kernel;
  }
  std::abort();
}

}  // namespace headrace
#endif  // HWY_ONCE
