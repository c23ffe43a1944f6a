// bench_regression: small windows of work whose instructions scripts/bench_regression counts under
// callgrind: the optimizer's kernels on arrays that fit the L2 cache, with the instructions that
// every machine it runs on has, and the step of small shards on the simulated platform.
//
//   bench_regression --list       the windows' names, one a line
//   bench_regression --compiler   what built it
//   bench_regression NAME         runs one; ends with 77 where this machine cannot
//
// Only what measured_window() does is counted.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "bench/huge_pages.h"
#include "bench/model.h"
#include "optim_cpu/adamw.h"
#include "optim_cpu/grad_norm.h"

namespace headrace::bench {
namespace {

constexpr std::size_t kElements = 16 * 1024;  // 288 KiB with state, parameters and gradients
constexpr int kSkipped = 77;

using Work = std::function<void()>;

[[noreturn]] void give_up(const Status& why) {
  fmt::print(stderr, "bench_regression: {}\n", why.to_string());
  std::exit(1);
}

template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) give_up(result.status());
  return std::move(*result);
}

// One thread, and the instructions that valgrind knows.
Team team() {
  for (const std::int64_t target : available_targets())
    if (target_name(target) == "AVX2") return {.threads = 1, .target = target};
  fmt::print("this machine has no AVX2\n");
  std::exit(kSkipped);
}

// Patterns of a number near 0.5, so that no kernel meets what is not finite.
Pages numbers(std::size_t bytes) {
  Pages pages = value_of(Pages::allocate(bytes));
  for (float& value : pages.as<float>()) value = 0.501953125F;  // 0x3f008000
  return pages;
}

Work adamw(StateFormat format) {
  const StateLayout layout = layout_of(format, ScalarType::bf16);
  const auto state = std::make_shared<Pages>(numbers(kElements * state_bytes_per_element(layout)));
  const auto params = std::make_shared<Pages>(numbers(kElements * 2));
  const auto gradient = std::make_shared<Pages>(numbers(kElements * 2));
  const AdamWRun run{.layout = layout,
                     .state = state_view(layout, state->bytes().data(), kElements, 0),
                     .param = params->bytes().data(),
                     .param_type = ScalarType::bf16,
                     .grad = gradient->bytes().data(),
                     .grad_type = ScalarType::bf16,
                     .count = kElements,
                     .scalars = adamw_scalars(AdamW{.weight_decay = 0.01}, 1, 1)};
  return [run, state, params, gradient, team = team()] { adamw_update({&run, 1}, team); };
}

Work norm(ScalarType type) {
  const auto gradient = std::make_shared<Pages>(numbers(kElements * size_of(type)));
  return [type, gradient, team = team(),
          sums = std::vector<BlockSum>(norm_blocks(kElements))]() mutable {
    block_sums(gradient->bytes().data(), type, kElements, sums, team);
  };
}

std::unique_ptr<Platform> simulate() {
  SimulationOptions options;
  options.disk_bytes = std::uint64_t{1} << 40;
  options.dry = true;
  return Platform::simulate(std::move(options));
}

// A training step without its bytes, of so many shards on NVMe.
struct DryTraining {
  static constexpr unsigned kUnits = 10;

  explicit DryTraining(std::size_t shards) : gradient(shards / kUnits * kShardElements) {
    ModelOptions wanted;
    wanted.unit_elements = gradient.size();
    wanted.units = kUnits;
    wanted.engine.state = StateHome::nvme;
    wanted.engine.nvme_paths = {"/drive"};
    wanted.engine.shard_bytes = 1;  // the smallest there are
    wanted.engine.threads = 1;
    model.emplace(value_of(
        Model::open_dry(*platform, wanted, view_of(std::span<const std::uint16_t>(gradient)))));
  }
  void step() {
    if (Status put = model->put_gradients(); !put.ok()) give_up(put);
    const StepReport report = value_of(model->step());
    if (Status done = model->engine().wait(report.done); !done.ok()) give_up(done);
  }

  const std::vector<std::uint16_t> gradient;
  const std::unique_ptr<Platform> platform = simulate();
  std::optional<Model> model;
};

Work step(std::size_t shards) {
  return [training = std::make_shared<DryTraining>(shards)] { training->step(); };
}

struct Window {
  std::string_view name;
  int passes;
  Work (*make)();
};

// The two steps have as many updates: they differ in what does not grow as the shards do.
constexpr std::array kWindows{
    Window{"adamw.fp32", 20, [] { return adamw(StateFormat::fp32); }},
    Window{"adamw.split", 20, [] { return adamw(StateFormat::split); }},
    Window{"norm.bf16", 20, [] { return norm(ScalarType::bf16); }},
    Window{"norm.fp32", 20, [] { return norm(ScalarType::fp32); }},
    Window{"step.200", 20, [] { return step(200); }},
    Window{"step.4000", 1, [] { return step(4000); }},
};

}  // namespace
}  // namespace headrace::bench

// What callgrind collects, by this name.
extern "C" [[gnu::noinline]] void measured_window(const std::function<void()>& work, int passes) {
  for (int pass = 0; pass < passes; ++pass) work();
}

int main(int count, char** arguments) {
  using namespace headrace::bench;
  const std::string_view wanted = count == 2 ? arguments[1] : "";
  if (wanted == "--compiler") {
    fmt::print("{} {}\n",
#ifdef __clang__
               "clang",
#else
               "g++",
#endif
               __VERSION__);
    return 0;
  }
  for (const Window& window : kWindows) {
    if (wanted == "--list") fmt::print("{}\n", window.name);
    if (wanted != window.name) continue;
    const Work work = window.make();
    for (int i = 0; i < 2; ++i) work();  // warms up
    measured_window(work, window.passes);
    return 0;
  }
  return wanted == "--list" ? 0 : 2;
}
