#include "tests/simulation/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "optim_cpu/adamw.h"
#include "optim_cpu/convert.h"
#include "optim_cpu/grad_norm.h"
#include "optim_cpu/state_format.h"
#include "runtime/checksum.h"

namespace headrace::simulation {
namespace {

const Team kAlone{};

StateLayout layout_of_tensor(const TensorSpec& spec) {
  return layout_of(StateFormat::fp32, spec.param);
}

// Views do not change what they view; one type serves both directions.
StateView view(const TensorSpec& spec, const AlignedBytes& state, std::uint64_t padded,
               std::uint64_t begin) {
  return state_view(layout_of_tensor(spec), const_cast<std::byte*>(state.data()), padded, begin);
}

std::span<const float> floats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

Reference::Reference(std::span<const TensorSpec> tensors) {
  for (const TensorSpec& spec : tensors) {
    Tensor tensor;
    tensor.spec = spec;
    tensor.is_alias = spec.alias_of.has_value();
    const TensorId id{static_cast<std::uint32_t>(tensors_.size())};
    roots_.push_back(tensor.is_alias ? root(*spec.alias_of) : id);
    if (!tensor.is_alias) {
      tensor.padded = round_up(spec.count, kSegmentElements);
      tensor.param.resize(tensor.padded * size_of(spec.param));
      if (spec.trainable) {
        tensor.state.resize(tensor.padded * state_bytes_per_element(layout_of_tensor(spec)));
        tensor.grad.resize(tensor.padded * size_of(spec.grad));
      }
    }
    tensors_.push_back(std::move(tensor));
  }
}

bool Reference::takes_gradient(TensorId id) const {
  const Tensor& tensor = of(id);
  return !tensor.has_gradient || tensor.spec.grad == ScalarType::fp32;
}

void Reference::put(TensorId id, const std::vector<std::byte>& gradient, ScalarType type) {
  Tensor& tensor = of(id);
  const std::uint64_t count = tensor.spec.count;
  if (tensor.has_gradient)
    add_gradient(reinterpret_cast<float*>(tensor.grad.data()), gradient.data(), type, count,
                 kAlone);
  else
    convert(tensor.grad.data(), tensor.spec.grad, gradient.data(), type, count, kAlone);
  tensor.has_gradient = true;
}

bool Reference::has_gradients() const {
  return std::ranges::any_of(tensors_, [](const Tensor& tensor) { return tensor.has_gradient; });
}

void Reference::drop_gradients() {
  for (Tensor& tensor : tensors_) tensor.has_gradient = false;
}

void Reference::judge(const StepOptions& options, Verdict& verdict) const {
  double sum = 0;
  for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
    const Tensor& tensor = tensors_[t];
    if (!tensor.has_gradient) continue;
    std::vector<BlockSum> blocks(norm_blocks(tensor.spec.count));
    block_sums(tensor.grad.data(), tensor.spec.grad, tensor.spec.count, blocks, kAlone);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      sum += blocks[b].sum;
      if (blocks[b].first_non_finite < 0 || verdict.bad_tensor) continue;
      verdict.bad_tensor = TensorId{t};
      verdict.bad_index = b * kNormBlock + static_cast<std::uint64_t>(blocks[b].first_non_finite);
    }
  }
  verdict.grad_norm = std::sqrt(sum) / options.grad_scale;
  verdict.applied = !(verdict.bad_tensor && options.skip_non_finite);
  if (verdict.applied && options.max_norm > 0)
    verdict.clip_factor = std::min(1.0, options.max_norm / (verdict.grad_norm + 1e-6));
}

void Reference::update(Tensor& tensor, const AdamW& group, double factor) {
  if (tensor.spec.count == 0) return;
  ++tensor.steps;
  const AdamWRun run{.layout = layout_of_tensor(tensor.spec),
                     .state = view(tensor.spec, tensor.state, tensor.padded, 0),
                     .param = tensor.param.data(),
                     .param_type = tensor.spec.param,
                     .grad = tensor.grad.data(),
                     .grad_type = tensor.spec.grad,
                     .count = tensor.padded,
                     .scalars = adamw_scalars(group, tensor.steps, factor)};
  adamw_update({&run, 1}, kAlone);
}

Verdict Reference::step(const StepOptions& options) {
  Verdict verdict;
  if (!has_gradients()) return verdict;
  verdict.applied = true;
  if (options.max_norm > 0 || options.skip_non_finite) judge(options, verdict);
  if (verdict.applied)
    for (Tensor& tensor : tensors_)
      if (tensor.has_gradient)
        update(tensor, options.by_group[index_of(tensor.spec.group)],
               verdict.clip_factor / options.grad_scale);
  drop_gradients();
  return verdict;
}

std::size_t Reference::element_bytes(TensorId id, Kind kind) const {
  return kind == Kind::param ? size_of(of(id).spec.param) : sizeof(float);
}

void Reference::write(TensorId id, Kind kind, Range range, std::span<const std::byte> values) {
  if (range.count == 0) return;
  Tensor& tensor = of(id);
  const TensorSpec& spec = tensor.spec;
  std::byte* const param = tensor.param.data() + range.begin * size_of(spec.param);
  if (!spec.trainable) {
    const ScalarType type = kind == Kind::param ? spec.param : ScalarType::fp32;
    convert(param, spec.param, values.data(), type, range.count, kAlone);
    return;
  }
  const StateView state = view(spec, tensor.state, tensor.padded, range.begin);
  const StateLayout layout = layout_of_tensor(spec);
  if (kind == Kind::param)
    set_param(layout, state, param, spec.param, values.data(), range.count);
  else if (kind == Kind::master)
    set_master(layout, state, param, spec.param, floats(values));
  else
    std::memcpy(kind == Kind::exp_avg ? state.exp_avg : state.exp_avg_sq, values.data(),
                values.size());
}

std::vector<std::byte> Reference::read(TensorId id, Kind kind, Range range) const {
  const Tensor& tensor = of(id);
  const TensorSpec& spec = tensor.spec;
  const std::byte* const param = tensor.param.data() + range.begin * size_of(spec.param);
  std::vector<std::byte> values(range.count * element_bytes(id, kind));
  if (range.count == 0) return values;
  const std::span<float> out(reinterpret_cast<float*>(values.data()), range.count);
  if (kind == Kind::param)
    std::memcpy(values.data(), param, values.size());
  else if (!spec.trainable)
    convert(values.data(), ScalarType::fp32, param, spec.param, range.count, kAlone);
  else if (const StateView state = view(spec, tensor.state, tensor.padded, range.begin);
           kind == Kind::master)
    master_from(layout_of_tensor(spec), state, param, out);
  else
    std::memcpy(values.data(), kind == Kind::exp_avg ? state.exp_avg : state.exp_avg_sq,
                values.size());
  return values;
}

std::uint64_t Reference::state_hash() const {
  StreamingChecksum hash;
  for (std::uint32_t t = 0; t < tensors_.size(); ++t) {
    if (tensors_[t].is_alias || !tensors_[t].spec.trainable) continue;
    for (const Kind kind : {Kind::master, Kind::exp_avg, Kind::exp_avg_sq})
      hash.update(read(TensorId{t}, kind, {0, tensors_[t].spec.count}));
  }
  return hash.digest();
}

}  // namespace headrace::simulation
