#include "tests/simulation/wrong_calls.h"

#include <array>

namespace headrace::simulation {
namespace {

Status put(Engine& engine, TensorId tensor, ConstMemView gradient) {
  return engine.wait(engine.put_grad(tensor, gradient, ScalarType::fp32));
}

Status step(Engine& engine, const Machine& machine, double max_norm, double grad_scale) {
  StepOptions options;
  options.by_group = machine.groups;
  options.max_norm = max_norm;
  options.grad_scale = grad_scale;
  return engine.step(options).status();
}

}  // namespace

Status wrong_call(std::uint32_t number, Engine& engine, const Machine& machine) {
  static std::array<float, 2> two{};
  const MemView bytes = view_of(std::span<float>(two));
  const TensorId last{static_cast<std::uint32_t>(machine.tensors.size() - 1)};
  const TensorId beyond{static_cast<std::uint32_t>(machine.tensors.size())};
  const std::uint64_t count = machine.tensors.back().count;
  switch (number) {
    case 0:
      return engine.read(beyond, Kind::master, {0, 2}, bytes);
    case 1:
      return engine.read(last, Kind::master, {count, 2}, bytes);
    case 2:
      return engine.write(last, Kind::master, {~std::uint64_t{0}, 2}, bytes);
    case 3:
      return engine.read(last, Kind::master, {0, 0}, bytes);
    case 4:
      return put(engine, beyond, bytes);
    case 5:
      return put(engine, last, MemView(bytes.data, count * sizeof(float) + 4, Home::host));
    case 6:
      return step(engine, machine, -1, 1);
    case 7:
      return step(engine, machine, 0, 0);
    default:
      return engine.acquire(UnitId{77}).status();
  }
}

}  // namespace headrace::simulation
