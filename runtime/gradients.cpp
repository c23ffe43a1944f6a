#include "runtime/gradients.h"

#include <cmath>

#include "optim_cpu/convert.h"

namespace headrace {
namespace {

// What the lane does with one gradient. Owns nothing but the sums.
struct Intake {
  MemView buffer;
  ScalarType type;
  std::uint64_t count;
  const std::byte* source;
  ScalarType source_type;
  bool add;
  std::shared_ptr<std::vector<BlockSum>> sums;
  Team team;

  Status operator()() const {
    std::byte* const kept = buffer.data;
    if (add)
      add_gradient(reinterpret_cast<float*>(kept), source, source_type, count, team);
    else
      convert(kept, type, source, source_type, count, team);
    block_sums(kept, type, count, *sums, team);
    return {};
  }
};

}  // namespace

Gradients::Gradients(const TensorTable& tensors, const ModelLayout& layout, MemView memory)
    : gradients_(tensors.size()) {
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors.all()[i];
    if (tensor.is_alias || !tensor.spec.trainable) continue;
    Gradient& gradient = gradients_[i];
    gradient.type = tensor.spec.grad;
    gradient.count = tensor.spec.count;
    gradient.buffer = memory.sub(layout.grad_offset[i], tensor.padded * size_of(gradient.type));
    gradient.sums = std::make_shared<std::vector<BlockSum>>(norm_blocks(gradient.count));
  }
}

Event Gradients::put(TensorId root, ConstMemView source, ScalarType type, Event after, Lane& lane,
                     Owner owner, const Team& team) {
  Gradient& gradient = gradients_[index_of(root)];
  const bool add = gradient.state == GradState::accumulating;
  Intake intake{gradient.buffer, gradient.type, gradient.count, source.data, type, add,
                gradient.sums,   team};
  const Event in = lane.run({.body = std::move(intake),
                             .bytes = source.size + gradient.buffer.size,
                             .name = add ? "add gradient" : "set gradient",
                             .owner = owner},
                            Event::all({after, gradient.ready}));
  gradient.state = GradState::accumulating;
  gradient.ready = in;
  return in;
}

std::vector<TensorId> Gradients::present() const {
  std::vector<TensorId> present;
  for (std::uint32_t i = 0; i < gradients_.size(); ++i)
    if (gradients_[i].state != GradState::empty) present.push_back(TensorId{i});
  return present;
}

Event Gradients::ready() const {
  std::vector<Event> all;
  for (const TensorId id : present()) all.push_back(of(id).ready);
  return Event::all(all);
}

GlobalNorm Gradients::norm() const {
  GlobalNorm result;
  double sum = 0;
  for (const TensorId id : present()) {
    const std::vector<BlockSum>& blocks = *of(id).sums;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      sum += blocks[b].sum;
      if (blocks[b].first_non_finite < 0 || result.bad_tensor) continue;
      result.bad_tensor = id;
      result.bad_index = b * kNormBlock + static_cast<std::uint64_t>(blocks[b].first_non_finite);
    }
  }
  result.norm = std::sqrt(sum);
  return result;
}

void Gradients::clear() {
  for (Gradient& gradient : gradients_) {
    gradient.state = GradState::empty;
    gradient.ready = {};
  }
}

}  // namespace headrace
