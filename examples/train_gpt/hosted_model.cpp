#include "examples/train_gpt/hosted_model.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace train_gpt {
namespace {

using headrace::EngineOptions;
using headrace::Event;
using headrace::Lease;
using headrace::Nanoseconds;
using headrace::Result;
using headrace::ScalarType;
using headrace::Status;
using headrace::UnitId;

constexpr std::size_t kAlignment = 16;  // floats: a cache line

std::size_t aligned(std::size_t count) {
  return (count + kAlignment - 1) / kAlignment * kAlignment;
}

EngineOptions engine_options(const Options& options) {
  EngineOptions to;
  to.format = options.format;
  to.state = options.state;
  to.dram_bytes = options.dram_bytes.value_or(0);
  to.nvme_paths = options.nvme_folders;
  // What a budget does not hold then goes to an unnamed file where the program was started.
  if (options.state == headrace::StateHome::automatic && options.dram_bytes) to.nvme_paths = {"."};
  to.slots = static_cast<int>(options.slots);
  to.threads = static_cast<int>(options.threads);
  // Enough for any format and all padding; the engine takes what it needs.
  if (options.state == headrace::StateHome::hbm) {
    to.hbm_bytes = 16 * parameter_count(parameters(options.shape)) + 64 * headrace::kMiB;
  }
  to.on_message = [](std::string_view message) { fmt::print(stderr, "train_gpt: {}\n", message); };
  return to;
}

headrace::GroupId group_id(Group group) {
  return headrace::GroupId{static_cast<std::uint32_t>(group)};
}
UnitId unit_id(std::size_t unit) { return UnitId{static_cast<std::uint32_t>(unit)}; }

void bf16_to_fp32(std::span<float> to, std::span<const std::byte> from) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from.data() + 2 * i, sizeof(bits));
    to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
}

}  // namespace

Result<std::unique_ptr<HostedModel>> HostedModel::open(headrace::Platform& platform,
                                                       const Options& options) {
  std::unique_ptr<HostedModel> model(new HostedModel(platform, options.shape));
  HEADRACE_ASSIGN(model->engine_, headrace::Engine::open(platform, engine_options(options)));
  HEADRACE_TRY(model->add_parameters());
  HEADRACE_TRY(model->engine_->seal());
  return model;
}

HostedModel::HostedModel(headrace::Platform& platform, const ModelShape& shape)
    : platform_(platform), shape_(shape), list_(parameters(shape)), of_unit_(shape.units()) {
  std::vector<std::size_t> floats(shape.units());
  for (std::size_t i = 0; i < list_.size(); ++i) {
    of_unit_[list_[i].unit].push_back(i);
    floats[list_[i].unit] += aligned(list_[i].count());
  }
  const std::size_t largest = *std::ranges::max_element(floats);
  weights_.resize(largest);
  for (Outgoing& outgoing : outgoing_) outgoing.memory.resize(largest);
}

Status HostedModel::add_parameters() {
  for (const Parameter& parameter : list_) {
    headrace::TensorSpec spec;
    spec.name = parameter.name;
    spec.unit = unit_id(parameter.unit);
    spec.group = group_id(parameter.group);
    spec.count = parameter.count();
    if (parameter.alias_of) spec.alias_of = ids_[*parameter.alias_of];
    HEADRACE_ASSIGN(const headrace::TensorId id, engine_->add(std::move(spec)));
    ids_.push_back(id);
  }
  return {};
}

Status HostedModel::initialise(std::uint64_t seed) {
  std::vector<float> values;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (list_[i].alias_of) continue;
    values.resize(list_[i].count());
    train_gpt::initialise(values, list_[i].initial, seed, i);
    HEADRACE_TRY(engine_->write(ids_[i], headrace::Kind::master, {0, values.size()},
                                headrace::view_of(std::span<const float>(values))));
  }
  return {};
}

Status HostedModel::forward(Model& model) {
  for (std::size_t unit = 0; unit < shape_.units(); ++unit) {
    HEADRACE_TRY(
        with_unit(unit, "forward", [&](Weights weights) { model.forward(unit, weights); }));
  }
  return {};
}

Status HostedModel::backward(Model& model, float scale) {
  for (std::size_t unit = shape_.units(); unit-- > 0;) {
    HEADRACE_TRY(backward_unit(model, unit, scale));
  }
  return {};
}

Status HostedModel::backward_unit(Model& model, std::size_t unit, float scale) {
  Outgoing& outgoing = outgoing_[unit % outgoing_.size()];
  HEADRACE_TRY(wait(Event::all(outgoing.taken)));
  outgoing.taken.clear();
  const auto into = cut(outgoing.memory, unit);
  const auto put = [&](std::size_t tensor) {
    const std::span<const float> gradient = into[tensor];
    outgoing.taken.push_back(engine_->put_grad(ids_[of_unit_[unit][tensor]],
                                               headrace::view_of(gradient), ScalarType::fp32));
  };
  const Gradients gradients{into, put};
  if (unit == 0) {
    const Nanoseconds begin = platform_.clock().now();
    model.backward(unit, {}, gradients, scale);
    traced(unit, "backward", begin);
    return {};
  }
  return with_unit(unit, "backward",
                   [&](Weights weights) { model.backward(unit, weights, gradients, scale); });
}

Status HostedModel::with_unit(std::size_t unit, const char* name, const UnitBody& body) {
  HEADRACE_ASSIGN(Lease lease, engine_->acquire(unit_id(unit)));
  HEADRACE_TRY(wait(lease.ready()));
  const Nanoseconds begin = platform_.clock().now();
  body(to_fp32(lease, unit));
  traced(unit, name, begin);
  lease.release();
  return {};
}

Status HostedModel::wait(const Event& event) {
  const Nanoseconds begin = platform_.clock().now();
  Status status = engine_->wait(event);
  waited_ += platform_.clock().now() - begin;
  return status;
}

std::vector<std::span<float>> HostedModel::cut(std::vector<float>& memory, std::size_t unit) const {
  std::vector<std::span<float>> parts;
  std::size_t at = 0;
  for (const std::size_t parameter : of_unit_[unit]) {
    parts.push_back(std::span(memory).subspan(at, list_[parameter].count()));
    at += aligned(list_[parameter].count());
  }
  return parts;
}

std::vector<std::span<const float>> HostedModel::to_fp32(const Lease& lease, std::size_t unit) {
  const auto parts = cut(weights_, unit);
  for (std::size_t tensor = 0; tensor < parts.size(); ++tensor) {
    bf16_to_fp32(parts[tensor], lease.param(ids_[of_unit_[unit][tensor]]).bytes());
  }
  return {parts.begin(), parts.end()};
}

void HostedModel::traced(std::size_t unit, const char* name, Nanoseconds begin) {
  if (platform_.trace() == nullptr) return;
  const std::string text = fmt::format("{} {}", name, unit);
  platform_.trace()->add({"compute", text, begin, platform_.clock().now()});
}

std::uint64_t HostedModel::scratch_bytes() const {
  std::uint64_t floats = weights_.size();
  for (const Outgoing& outgoing : outgoing_) floats += outgoing.memory.size();
  return floats * sizeof(float);
}

}  // namespace train_gpt
