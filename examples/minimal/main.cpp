// Trains one matrix to be the identity, its optimizer state in a file of the folder given.
#include <cmath>
#include <cstdio>
#include <vector>

#include "runtime/engine.h"
using namespace headrace;

namespace {

constexpr std::uint64_t kWidth = 64, kCount = kWidth * kWidth;

// Loss = |w - identity|^2 / 2, so the gradient is the difference.
float gradient_of(const float* w, std::vector<float>& gradient) {
  double loss = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    gradient[i] = w[i] - (i % (kWidth + 1) == 0 ? 1.0F : 0.0F);
    loss += 0.5 * gradient[i] * gradient[i];
  }
  return static_cast<float>(loss);
}

Status run(const char* folder) {
  HEADRACE_ASSIGN(const auto platform, Platform::open());
  EngineOptions options;
  options.state = StateHome::nvme;
  options.nvme_paths = {folder};
  HEADRACE_ASSIGN(const auto engine, Engine::open(*platform, options));

  const UnitId layer{0};
  HEADRACE_ASSIGN(
      const TensorId w,
      engine->add({.name = "w", .unit = layer, .count = kCount, .param = ScalarType::fp32}));
  HEADRACE_TRY(engine->seal());
  const std::vector<float> start(kCount, 0.5F);
  HEADRACE_TRY(engine->write(w, Kind::master, {0, kCount}, view_of(std::span(start))));

  std::vector<float> gradient(kCount);
  const AdamW adamw{.lr = 0.05};
  for (int step = 0; step <= 100; ++step) {
    HEADRACE_ASSIGN(Lease lease, engine->acquire(layer));  // waits for the last step's update of
    HEADRACE_TRY(engine->wait(lease.ready()));             // this unit, and for nothing else
    const float loss = gradient_of(reinterpret_cast<const float*>(lease.param(w).data), gradient);
    lease.release();
    if (step % 20 == 0) std::printf("step %3d  loss %.5f\n", step, static_cast<double>(loss));
    const Event put = engine->put_grad(w, view_of(std::span(gradient)), ScalarType::fp32);
    HEADRACE_TRY(engine->step({.by_group = {&adamw, 1}, .max_norm = 10}).status());
    HEADRACE_TRY(engine->wait(put));  // the gradient's memory is ours again
  }
  return engine->close(std::chrono::seconds(10));
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run(argc > 1 ? argv[1] : ".");
  if (!status.ok()) std::fprintf(stderr, "minimal: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
