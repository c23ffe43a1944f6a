// The exactness program against AdamW in float64: how far the masters are from it, and that
// parameters are their rounding.
//
// The sums that are kept in fp32 are the program's input: they are added in float, in the order of
// the calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "optim_cpu/convert.h"
#include "tests/support/temporary_folder.h"
#include "tests/runtime/exact_model.h"

namespace headrace {
namespace {

using exact::Described;

// The rates stay as they are after the program's last step.
std::array<AdamW, 2> groups(int step) { return exact::groups(std::min(step, exact::kSteps)); }

// One tensor in float64, after Loshchilov and Hutter, Decoupled Weight Decay Regularization,
// algorithm 2; epsilon is added to the root of the corrected second moment.
struct Reference {
  std::vector<double> p, m, v;
  std::vector<float> grad;  // as it is kept
  bool has_gradient = false;
  std::uint64_t steps = 0;

  void put(std::span<const std::byte> source, ScalarType type, ScalarType kept) {
    for (std::size_t i = 0; i < grad.size(); ++i) {
      const float value = float_at(source.data(), type, i);
      grad[i] = has_gradient ? grad[i] + value : value;
      if (kept == ScalarType::bf16) grad[i] = float_of_bf16(bf16_of_float(grad[i]));
    }
    has_gradient = true;
  }

  void update(const AdamW& group, double factor) {
    ++steps;
    const double n = static_cast<double>(steps);
    const double correction1 = 1 - std::pow(group.beta1, n);
    const double correction2 = 1 - std::pow(group.beta2, n);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = grad[i] * factor;
      m[i] = group.beta1 * m[i] + (1 - group.beta1) * g;
      v[i] = group.beta2 * v[i] + (1 - group.beta2) * g * g;
      const double direction = (m[i] / correction1) / (std::sqrt(v[i] / correction2) + group.eps);
      p[i] -= group.lr * group.weight_decay * p[i] + group.lr * direction;
    }
  }
};

class ReferenceModel {
 public:
  ReferenceModel() {
    for (std::uint32_t t = 0; t < exact::tensors().size(); ++t) {
      Reference& tensor = tensors_.emplace_back();
      if (exact::tensors()[t].alias_of >= 0) continue;
      for (const float value : exact::initial(t)) tensor.p.push_back(value);
      tensor.m.resize(tensor.p.size());
      tensor.v.resize(tensor.p.size());
      tensor.grad.resize(tensor.p.size());
    }
  }
  const Reference& operator[](std::uint32_t tensor) const { return tensors_[tensor]; }

  struct Norm {
    double norm = 0;
    bool finite = true;
  };
  // Takes in the gradients of a step.
  Norm put(int step) {
    for (const exact::Put& put : exact::puts(step)) {
      const int alias = exact::tensors()[put.tensor].alias_of;
      const std::uint32_t root = alias >= 0 ? static_cast<std::uint32_t>(alias) : put.tensor;
      tensors_[root].put(put.bytes, put.type, exact::tensors()[root].grad);
    }
    Norm result;
    double sum = 0;
    for (const Reference& tensor : tensors_)
      if (tensor.has_gradient)
        for (const double g : tensor.grad) sum += g * g;
    result.norm = std::sqrt(sum) / exact::kGradScale;
    result.finite = std::isfinite(sum);
    return result;
  }
  void update(int step, double norm) {
    const auto by_group = groups(step);
    const double clip = std::min(1.0, exact::kMaxNorm / (norm + 1e-6));
    for (std::uint32_t t = 0; t < tensors_.size(); ++t)
      if (tensors_[t].has_gradient)
        tensors_[t].update(by_group[exact::tensors()[t].group], clip / exact::kGradScale);
  }
  void drop() {
    for (Reference& tensor : tensors_) tensor.has_gradient = false;
  }

 private:
  std::vector<Reference> tensors_;
};

// Distances in units of the last place of the reference.
struct Distance {
  double squares = 0;
  double most = 0;
  std::uint64_t count = 0;

  void add(double reference, float value) {
    if (std::abs(reference) < 0.01) return;
    int exponent = 0;
    std::frexp(reference, &exponent);
    const double ulps = std::abs(value - reference) / std::ldexp(1.0, exponent - 24);
    squares += ulps * ulps;
    most = std::max(most, ulps);
    ++count;
  }
  double rms() const { return std::sqrt(squares / static_cast<double>(count)); }
};

std::vector<float> floats_of(Engine& engine, std::uint32_t tensor, Kind kind) {
  std::vector<float> values(exact::tensors()[tensor].count);
  EXPECT_TRUE(
      engine.read(TensorId{tensor}, kind, {0, values.size()}, view_of(std::span(values))).ok());
  return values;
}

void expect_parameters_are_the_rounding(Engine& engine, std::uint32_t tensor,
                                        const std::vector<float>& masters) {
  const ScalarType type = exact::tensors()[tensor].param;
  const std::size_t bytes = masters.size() * size_of(type);
  std::vector<std::byte> params(bytes), expected(bytes);
  ASSERT_TRUE(
      engine.read(TensorId{tensor}, Kind::param, {0, masters.size()}, MemView(Bytes(params))).ok());
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const std::uint16_t half =
        type == ScalarType::bf16 ? bf16_of_float(masters[i]) : fp16_of_float(masters[i]);
    if (type == ScalarType::fp32)
      std::memcpy(&expected[4 * i], &masters[i], 4);
    else
      std::memcpy(&expected[2 * i], &half, 2);
  }
  EXPECT_EQ(params, expected) << exact::tensors()[tensor].name;
}

void expect_near(const std::vector<double>& reference, const std::vector<float>& values,
                 const char* what) {
  double scale = 0;
  for (const double value : reference) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < reference.size(); ++i)
    ASSERT_NEAR(values[i], reference[i], 1e-5 * scale) << what << " " << i;
}

void compare(Engine& engine, const ReferenceModel& reference, Distance& distance) {
  for (std::uint32_t t = 0; t < exact::tensors().size(); ++t) {
    const Described& d = exact::tensors()[t];
    if (d.alias_of >= 0 || !d.trainable) continue;
    const std::vector<float> masters = floats_of(engine, t, Kind::master);
    for (std::size_t i = 0; i < masters.size(); ++i) distance.add(reference[t].p[i], masters[i]);
    expect_near(reference[t].m, floats_of(engine, t, Kind::exp_avg), d.name);
    expect_near(reference[t].v, floats_of(engine, t, Kind::exp_avg_sq), d.name);
    expect_parameters_are_the_rounding(engine, t, masters);
    const std::uint64_t steps = d.count > 0 ? reference[t].steps : 0;  // nothing has no steps
    EXPECT_EQ(engine.steps_of(TensorId{t}).value(), steps);
  }
}

void put(Engine& engine, int step) {
  for (const exact::Put& given : exact::puts(step)) {
    const Event in = engine.put_grad(TensorId{given.tensor}, given.bytes, given.type);
    if (step != exact::kOverflowStep) continue;
    ASSERT_TRUE(engine.wait(in).ok());  // its source is reused
  }
}

Distance distance_after(int steps, EngineOptions options) {
  const auto platform = Platform::open().value();
  options.shard_bytes = 300 * kKiB;
  const auto engine = Engine::open(*platform, options).value();
  EXPECT_TRUE(exact::build(*engine).ok());
  ReferenceModel reference;
  for (int step = 0; step < steps; ++step) {
    put(*engine, step);
    const auto [norm, finite] = reference.put(step);
    const auto by_group = groups(step);
    const StepReport report = engine
                                  ->step({.by_group = by_group,
                                          .max_norm = exact::kMaxNorm,
                                          .grad_scale = exact::kGradScale})
                                  .value();
    EXPECT_EQ(report.applied, finite) << step;
    if (finite) {
      EXPECT_NEAR(report.grad_norm, norm, 1e-6 * norm);
      EXPECT_LT(report.clip_factor, 1.0);
      reference.update(step, norm);
    }
    reference.drop();
  }
  Distance distance;
  compare(*engine, reference, distance);
  std::printf("%d steps: rms %.2f ulp, most %.1f, of %llu masters\n", steps, distance.rms(),
              distance.most, static_cast<unsigned long long>(distance.count));
  return distance;
}

void expect_within_bounds(const Distance& distance) {
  EXPECT_GT(distance.count, 100'000u);
  EXPECT_LE(distance.rms(), 4.5);
  EXPECT_LE(distance.most, 40);
}

TEST(Reference, TheProgramIsWithinTheBoundsOfFloat64) {
  expect_within_bounds(
      distance_after(exact::kSteps, {.format = StateFormat::fp32, .state = StateHome::dram}));
}

TEST(Reference, TheProgramIsWithinTheBoundsOfFloat64WithSplitStateOnNvme) {
  const TemporaryFolder folder;
  expect_within_bounds(distance_after(
      exact::kSteps,
      {.format = StateFormat::split, .state = StateHome::nvme, .nvme_paths = {folder.path()}}));
}

// The bounds are for 100 steps.
TEST(StressReference, AHundredStepsAreWithinTheBoundsOfFloat64) {
  expect_within_bounds(distance_after(100, {.state = StateHome::dram}));
}

}  // namespace
}  // namespace headrace
