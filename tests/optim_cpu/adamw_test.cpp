#include "optim_cpu/adamw.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "optim_cpu/convert.h"
#include "tests/optim_cpu/shard.h"

namespace headrace {
namespace {

constexpr std::size_t kElements = 2 * kShardElements;

AdamWRun run_of(const Shard& shard, const Array& grad, ScalarType grad_type, std::size_t begin,
                std::size_t count, const AdamWScalars& scalars) {
  return {.layout = shard.kind.layout,
          .state = shard.view(begin),
          .param = shard.param_at(begin),
          .param_type = shard.kind.param,
          .grad = grad.data() + begin * size_of(grad_type),
          .grad_type = grad_type,
          .count = count,
          .scalars = scalars};
}

void update(const Shard& shard, const Array& grad, ScalarType grad_type,
            const AdamWScalars& scalars, const Team& team) {
  const AdamWRun run = run_of(shard, grad, grad_type, 0, shard.count, scalars);
  adamw_update({&run, 1}, team);
}

// A shard in mid-training: masters and moments of ordinary size.
Shard trained(const ShardKind& kind, Random& random) {
  const Shard shard(kind, kElements);
  const Array masters = normal_array(kElements, ScalarType::fp32, 0.05, random);
  shard.set({masters.floats(), kElements}, 0);
  const Array m = normal_array(kElements, ScalarType::fp32, 1e-3, random);
  const Array v = normal_array(kElements, ScalarType::fp32, 1e-6, random);
  for (std::size_t i = 0; i < kElements; ++i) {
    shard.view(i).exp_avg[0] = m.floats()[i];
    shard.view(i).exp_avg_sq[0] = std::abs(v.floats()[i]);
  }
  return shard;
}

// Every element as in the formulas of the paper, all in double.
struct Reference {
  AdamW group;
  std::vector<double> p, m, v;

  explicit Reference(const AdamW& hyper, std::span<const float> masters)
      : group(hyper), p(masters.begin(), masters.end()), m(p.size()), v(p.size()) {}

  void update(std::size_t step, const std::vector<double>& gradient) {
    const double correction1 = 1 - std::pow(group.beta1, step);
    const double correction2 = 1 - std::pow(group.beta2, step);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = gradient[i] + (group.decoupled ? 0 : group.weight_decay * p[i]);
      m[i] = group.beta1 * m[i] + (1 - group.beta1) * g;
      v[i] = group.beta2 * v[i] + (1 - group.beta2) * g * g;
      if (group.decoupled) p[i] -= group.lr * group.weight_decay * p[i];
      p[i] -= group.lr * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + group.eps);
    }
  }
};

struct Ulps {
  double rms, max;
};

// How far masters are from the reference, where they are not small.
Ulps distance(std::span<const float> masters, std::span<const double> reference) {
  double squares = 0, largest = 0, count = 0;
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const double size = std::abs(reference[i]);
    if (size < 0.01) continue;
    const double ulps = std::abs(masters[i] - reference[i]) / std::ldexp(1, std::ilogb(size) - 23);
    squares += ulps * ulps;
    largest = std::max(largest, ulps);
    ++count;
  }
  EXPECT_GT(count, static_cast<double>(masters.size()) / 4);
  return {std::sqrt(squares / count), largest};
}

constexpr double kFactor = 0.37;

// 100 steps of both; the gradients have 16 bits or 32, the kernel is given kFactor apart.
Ulps after_100_steps(const ShardKind& kind, ScalarType grad_type, const AdamW& group,
                     Random& random) {
  const Shard shard(kind, kElements);
  const Array start = normal_array(kElements, ScalarType::fp32, 0.05, random);
  shard.set({start.floats(), kElements}, 0);
  Reference reference(group, shard.masters());
  std::vector<double> gradient(kElements);
  for (std::size_t step = 1; step <= 100; ++step) {
    const Array grad = normal_array(kElements, grad_type, 0.01, random);
    for (std::size_t i = 0; i < kElements; ++i)
      gradient[i] = kFactor * float_at(grad.data(), grad_type, i);
    reference.update(step, gradient);
    update(shard, grad, grad_type, adamw_scalars(group, step, kFactor), {});
  }
  return distance(shard.masters(), reference.p);
}

// The bounds are those of the design: float64 after 100 steps, where abs(p) >= 0.01. They are of
// typical numbers, so the seed is always the same: a gradient that cancels against coupled decay
// can be as wrong as it likes.
void expect_close(const AdamW& group) {
  Random random = seeded_with(2024);
  for (const ShardKind& kind : kShardKinds) {
    for (const ScalarType grad_type : kTypes) {
      const Ulps ulps = after_100_steps(kind, grad_type, group, random);
      std::cout << name_of(kind.param) << ": rms " << ulps.rms << ", max " << ulps.max << " ulp\n";
      EXPECT_LE(ulps.rms, 4.5) << name_of(kind.param) << " " << name_of(grad_type);
      EXPECT_LE(ulps.max, 40) << name_of(kind.param) << " " << name_of(grad_type);
    }
  }
}

TEST(AdamW, HundredStepsAreThoseOfDouble) { expect_close({.lr = 1e-3, .weight_decay = 0.1}); }

TEST(AdamW, HundredStepsWithoutDecayAreThoseOfDouble) { expect_close({.lr = 3e-4}); }

TEST(AdamW, HundredStepsOfCoupledDecayAreThoseOfDouble) {
  expect_close({.lr = 1e-3, .beta2 = 0.99, .weight_decay = 0.01, .decoupled = false});
}

// The decay of Adam goes through the moments, that of AdamW does not.
TEST(AdamW, WithoutGradientOnlyCoupledDecayMovesTheMoments) {
  for (const bool decoupled : {true, false}) {
    const Shard shard(kShardKinds[0], kShardElements);
    shard.set(std::vector<float>(kShardElements, 0.5f), 0);
    const Array grad(2 * kShardElements);
    const AdamW group{.lr = 0.1, .weight_decay = 0.1, .decoupled = decoupled};
    update(shard, grad, ScalarType::bf16, adamw_scalars(group, 1, 1), {});
    EXPECT_FLOAT_EQ(shard.view(0).exp_avg[0], decoupled ? 0.0f : 0.005f);
    EXPECT_FLOAT_EQ(shard.masters()[0], decoupled ? 0.495f : 0.4f);
  }
}

TEST(AdamW, ScalarsAreRoundedOnceFromDouble) {
  const AdamWScalars s = adamw_scalars({.lr = 2e-3, .weight_decay = 0.1}, 3, 0.25);
  EXPECT_EQ(s.grad_factor, 0.25f);
  EXPECT_EQ(s.one_minus_beta2, static_cast<float>(1 - 0.999));
  EXPECT_EQ(s.inv_sqrt_correction2, static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, 3.0))));
  EXPECT_EQ(s.step_size, static_cast<float>(2e-3 / (1 - std::pow(0.9, 3.0))));
  EXPECT_EQ(s.decay, static_cast<float>(2e-3 * 0.1));
  EXPECT_EQ(s.coupled_decay, 0);
}

TEST(AdamW, ScalarsOfALateStepHaveNoCorrection) {
  const AdamWScalars s = adamw_scalars({.lr = 1e-3}, std::uint64_t{1} << 40, 1);
  EXPECT_EQ(s.inv_sqrt_correction2, 1);
  EXPECT_EQ(s.step_size, 1e-3f);
}

TEST(AdamW, ALearningRateOfZeroMovesTheMomentsAlone) {
  Random random = seeded();
  for (const ShardKind& kind : kShardKinds) {
    const Shard shard = trained(kind, random);
    const std::vector<float> before = shard.masters();
    const Array param(shard.param), state(shard.state);
    const Array grad = normal_array(kElements, ScalarType::bf16, 0.01, random);
    update(shard, grad, ScalarType::bf16, adamw_scalars({.lr = 0, .weight_decay = 0.1}, 5, 1), {});
    EXPECT_TRUE(same_bytes(shard.masters(), before));
    EXPECT_EQ(shard.param, param);
    EXPECT_FALSE(shard.state == state);
  }
}

TEST(AdamW, ParametersAreTheRoundingOfTheirMasters) {
  Random random = seeded();
  for (const ShardKind& kind : kShardKinds) {
    const Shard shard = trained(kind, random);
    const Array grad = normal_array(kElements, ScalarType::fp32, 0.01, random);
    update(shard, grad, ScalarType::fp32, adamw_scalars({}, 5, 1), {});
    const Array expected(shard.param.size());
    const std::vector<float> masters = shard.masters();
    for (std::size_t i = 0; i < kElements; ++i) set_element(expected, kind.param, i, masters[i]);
    EXPECT_EQ(shard.param, expected);
  }
}

TEST(AdamW, GradientsAreReadOnlyAndScaledInside) {
  Random random = seeded();
  const Array grad = normal_array(kElements, ScalarType::fp32, 1, random), scaled(grad);
  for (std::size_t i = 0; i < kElements; ++i) scaled.floats()[i] *= 0.125f;
  const Array before(grad);
  const Shard a = trained(kShardKinds[0], random), b(a);
  update(a, grad, ScalarType::fp32, adamw_scalars({}, 2, 0.125), {});
  update(b, scaled, ScalarType::fp32, adamw_scalars({}, 2, 1), {});
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(grad, before);
}

// --- the same bits ---

constexpr AdamW kGroups[] = {{.lr = 1e-3, .weight_decay = 0.1},
                             {.lr = 1e-2, .weight_decay = 0.1, .decoupled = false}};

// Ordinary gradients, and one in eight of them any bits at all.
Array mixed_grad(ScalarType type, Random& random) {
  const Array grad = normal_array(kElements, type, 0.01, random);
  const Array wild = any_bits(kElements, type, random);
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < kElements; ++i) {
    if (random() % 8 == 0) std::memcpy(grad.data() + i * size, wild.data() + i * size, size);
  }
  return grad;
}

// Two updates, so that what the first one left is read again.
void update_twice(const Shard& shard, const Array& grad, ScalarType type, const AdamW& group,
                  const Team& team) {
  update(shard, grad, type, adamw_scalars(group, 1, 0.5), team);
  update(shard, grad, type, adamw_scalars(group, 2, 0.5), team);
}

void expect_same_on_every_team(const ShardKind& kind, ScalarType type, const AdamW& group,
                               Random& random) {
  const Shard start = trained(kind, random), expected(start);
  const Array grad = mixed_grad(type, random);
  update_twice(expected, grad, type, group, {1, available_targets().back()});
  for (const std::int64_t target : available_targets()) {
    for (const int threads : {1, 2, 3, 7}) {
      const Shard shard(start);
      update_twice(shard, grad, type, group, {threads, target});
      EXPECT_TRUE(shard.state == expected.state && shard.param == expected.param)
          << name_of(kind.param) << " " << name_of(type) << " " << target_name(target) << " "
          << threads;
    }
  }
}

TEST(AdamW, BitsAreTheSameOnEveryTeam) {
  Random random = seeded();
  for (const ShardKind& kind : kShardKinds)
    for (const ScalarType type : kTypes)
      for (const AdamW& group : kGroups) expect_same_on_every_team(kind, type, group, random);
}

// Segments of 256, 512, 768 ... elements, all in one call.
std::vector<AdamWRun> segments(const Shard& shard, const Array& grad, ScalarType type,
                               const AdamWScalars& scalars) {
  std::vector<AdamWRun> runs;
  for (std::size_t begin = 0, count = kSegmentElements; begin < kElements;) {
    const std::size_t size = std::min(count, kElements - begin);
    runs.push_back(run_of(shard, grad, type, begin, size, scalars));
    begin += size;
    count += kSegmentElements;
  }
  return runs;
}

TEST(AdamW, BitsAreTheSameHoweverAShardIsCut) {
  Random random = seeded();
  const AdamWScalars scalars = adamw_scalars(kGroups[0], 1, 1);
  for (const ShardKind& kind : kShardKinds) {
    const Shard start = trained(kind, random), whole(start);
    const Array grad = mixed_grad(ScalarType::bf16, random);
    update(whole, grad, ScalarType::bf16, scalars, {});
    for (const int threads : {1, 2, 5}) {
      const Shard one_call(start), many_calls(start);
      adamw_update(segments(one_call, grad, ScalarType::bf16, scalars), {.threads = threads});
      for (const AdamWRun& run : segments(many_calls, grad, ScalarType::bf16, scalars))
        adamw_update({&run, 1}, {.threads = threads});
      EXPECT_TRUE(one_call.state == whole.state && one_call.param == whole.param);
      EXPECT_TRUE(many_calls.state == whole.state && many_calls.param == whole.param);
    }
  }
}

// Masters, moments and, if of the same type, parameters.
void expect_same_values(const Shard& a, const Shard& b) {
  EXPECT_TRUE(same_bytes(a.masters(), b.masters()));
  const StateView left = a.view(0), right = b.view(0);
  EXPECT_TRUE(same_bytes({left.exp_avg, a.count}, {right.exp_avg, b.count}));
  EXPECT_TRUE(same_bytes({left.exp_avg_sq, a.count}, {right.exp_avg_sq, b.count}));
  EXPECT_TRUE(a.kind.param != b.kind.param || a.param == b.param);
}

TEST(AdamW, EveryLayoutHasTheBitsOfFp32) {
  Random random = seeded();
  for (const ScalarType type : kTypes) {
    const Array masters = normal_array(kElements, ScalarType::fp32, 0.05, random);
    const Shard expected(kShardKinds[0], kElements);
    expected.set({masters.floats(), kElements}, 0);
    std::vector<Shard> others;
    for (const ShardKind& kind : kShardKinds)
      others.emplace_back(kind, kElements).set({masters.floats(), kElements}, 0);
    for (std::uint64_t step = 1; step <= 10; ++step) {
      const Array grad = mixed_grad(type, random);
      const AdamWScalars scalars = adamw_scalars(kGroups[step % 2], step, 0.7);
      update(expected, grad, type, scalars, {});
      for (const Shard& shard : others) update(shard, grad, type, scalars, {.threads = 2});
    }
    for (const Shard& shard : others) expect_same_values(shard, expected);
  }
}

TEST(AdamW, OneNanGradientSpoilsItsOwnElementAlone) {
  for (const ShardKind& kind : kShardKinds) {
    const Shard shard(kind, kShardElements);
    const Array grad(4 * kShardElements);
    grad.floats()[100] = std::bit_cast<float>(0x7fffffffu);
    update(shard, grad, ScalarType::fp32, adamw_scalars({}, 1, 1), {});
    const std::vector<float> masters = shard.masters();
    for (std::size_t i = 0; i < kShardElements; ++i) {
      EXPECT_EQ(std::isnan(masters[i]), i == 100);
      EXPECT_EQ(std::isnan(shard.view(i).exp_avg[0]), i == 100);
      EXPECT_EQ(std::isnan(shard.view(i).exp_avg_sq[0]), i == 100);
      EXPECT_EQ(std::isnan(float_at(shard.param.data(), kind.param, i)), i == 100);
    }
  }
}

TEST(AdamW, NothingIsALegalCount) {
  adamw_update({}, {.threads = 2});
  const AdamWRun empty;
  adamw_update({&empty, 1}, {.threads = 2});
}

}  // namespace
}  // namespace headrace
