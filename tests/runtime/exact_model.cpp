#include "tests/runtime/exact_model.h"

#include <cmath>
#include <limits>
#include <random>

#include "optim_cpu/dtype.h"
#include "runtime/checksum.h"

namespace headrace::exact {
namespace {

using enum ScalarType;

constexpr std::array kTensors = {
    Described{"embedding", 0, 0, 200'000, bf16, fp32, bf16},
    Described{"positions", 0, 1, 3'000, bf16, fp32, fp32},
    Described{"frozen", 0, 0, 300, fp16, fp32, fp32, false},
    Described{"layer0.weight", 1, 0, 20'000, bf16, fp32, fp16},
    Described{"layer0.bias", 1, 1, 100, fp32, fp32, fp32},
    Described{"layer0.half", 1, 0, 5'000, fp16, fp32, bf16},
    Described{"empty", 1, 0, 0, bf16, fp32, fp32},
    Described{"layer1.weight", 2, 0, 16'384, bf16, fp32, fp32},
    Described{"layer1.norm", 2, 1, 257, fp32, fp32, bf16},
    Described{"layer1.once", 2, 0, 2'000, bf16, bf16, bf16},
    Described{"late", 3, 0, 3'333, bf16, fp32, bf16, true, 12},
    Described{"head", 3, 0, 200'000, bf16, fp32, fp32, true, 0, 0},
};

constexpr std::size_t kPool = 260'000;

struct Pools {
  std::vector<float> fp32;
  std::vector<std::uint16_t> bf16, fp16;
};

// Magnitudes over five decades, so that every rounding matters.
const Pools& pools() {
  static const Pools made = [] {
    std::mt19937_64 random(kSeed);
    std::uniform_real_distribution<float> sign(-1.0F, 1.0F), decade(-4.0F, 1.0F);
    Pools p;
    for (std::size_t i = 0; i < kPool; ++i) {
      const float value = sign(random) * std::pow(10.0F, decade(random));
      p.fp32.push_back(value);
      p.bf16.push_back(bf16_of_float(value));
      p.fp16.push_back(fp16_of_float(value));
    }
    return p;
  }();
  return made;
}

std::span<const std::byte> pool_of(ScalarType type) {
  const Pools& p = pools();
  if (type == fp32) return std::as_bytes(std::span(p.fp32));
  return std::as_bytes(std::span(type == bf16 ? p.bf16 : p.fp16));
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const std::array words = {a, b, c, kSeed};
  return checksum(std::as_bytes(std::span(words)));
}

// Infinity where the overflow strikes: a copy of the window with one element changed.
std::span<const std::byte> overflowing(std::span<const std::byte> window) {
  static std::vector<std::byte> copy;
  copy.assign(window.begin(), window.end());
  const float infinity = std::numeric_limits<float>::infinity();
  const auto bytes = std::as_bytes(std::span(&infinity, 1));
  std::copy(bytes.begin(), bytes.end(), copy.begin() + 4 * 77);
  return copy;
}

bool has_gradient(std::uint32_t tensor, int step) {
  const Described& d = kTensors[tensor];
  return d.trainable && step >= d.first_step &&
         (step == kOverflowStep || mix(tensor, static_cast<std::uint64_t>(step), 1) % 10 < 7);
}

}  // namespace

std::span<const Described> tensors() { return kTensors; }

std::vector<Put> puts(int step) {
  std::vector<Put> all;
  for (int micro = 0; micro < kMicroBatches; ++micro) {
    for (std::uint32_t t = static_cast<std::uint32_t>(kTensors.size()); t-- > 0;) {
      const Described& d = kTensors[t];
      if (!has_gradient(t, step) || (d.grad != fp32 && micro > 0)) continue;
      const std::size_t bytes = d.count * size_of(d.source);
      const std::size_t at =
          mix(t, static_cast<std::uint64_t>(step), 2 + static_cast<std::uint64_t>(micro)) %
          (kPool - d.count) * size_of(d.source);
      std::span<const std::byte> window = pool_of(d.source).subspan(at, bytes);
      const bool strikes = step == kOverflowStep && micro == 2 && t == 7;
      all.push_back({t, strikes ? overflowing(window) : window, d.source});
    }
  }
  return all;
}

std::array<AdamW, 2> groups(int step) {
  const double lr = 1e-3 * (1.0 + 0.05 * step);
  return {AdamW{lr, 0.9, 0.95, 1e-8, 0.1, true}, AdamW{lr / 2, 0.9, 0.999, 1e-8, 0.0, true}};
}

std::vector<float> initial(std::uint32_t tensor) {
  const std::size_t at = mix(tensor, 0, 99) % 50'000;
  const auto window = std::span(pools().fp32).subspan(at, kTensors[tensor].count);
  return {window.begin(), window.end()};
}

Status build(Engine& engine) {
  for (const Described& d : kTensors) {
    TensorSpec spec{.name = d.name,
                    .unit = UnitId{d.unit},
                    .group = GroupId{d.group},
                    .count = d.count,
                    .param = d.param,
                    .grad = d.grad,
                    .trainable = d.trainable,
                    .alias_of = std::nullopt};
    if (d.alias_of >= 0) spec.alias_of = TensorId{static_cast<std::uint32_t>(d.alias_of)};
    HEADRACE_TRY(engine.add(std::move(spec)).status());
  }
  HEADRACE_TRY(engine.seal());
  for (std::uint32_t t = 0; t < kTensors.size(); ++t) {
    if (kTensors[t].alias_of >= 0) continue;
    const std::vector<float> values = initial(t);
    HEADRACE_TRY(engine.write(TensorId{t}, Kind::master, {0, values.size()},
                              view_of(std::span<const float>(values))));
  }
  return {};
}

Status train(Engine& engine, int from, int to) {
  for (int step = from; step < to; ++step) {
    const std::vector<Put> given = puts(step);
    for (const Put& put : given) {
      const Event in = engine.put_grad(TensorId{put.tensor}, put.bytes, put.type);
      if (in.done()) HEADRACE_TRY(in.status());
      if (step == kOverflowStep) HEADRACE_TRY(engine.wait(in));  // its source is reused
    }
    const auto by_group = groups(step);
    HEADRACE_ASSIGN(
        const StepReport report,
        engine.step({.by_group = by_group, .max_norm = kMaxNorm, .grad_scale = kGradScale}));
    if (report.applied == (step == kOverflowStep))
      return Status(Code::invalid, "a step was applied or skipped against the program");
  }
  return {};
}

Result<std::uint64_t> hash(Engine& engine) {
  StreamingChecksum sum;
  for (std::uint32_t t = 0; t < kTensors.size(); ++t) {
    const Described& d = kTensors[t];
    for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq, Kind::param}) {
      if (!d.trainable && (kind == Kind::exp_avg || kind == Kind::exp_avg_sq)) continue;
      std::vector<std::byte> bytes(d.count * (kind == Kind::param ? size_of(d.param) : 4));
      HEADRACE_TRY(engine.read(TensorId{t}, kind, {0, d.count}, MemView(Bytes(bytes))));
      sum.update(bytes);
    }
  }
  return sum.digest();
}

}  // namespace headrace::exact
