#include "runtime/tensor_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/bytes.h"
#include "optim_cpu/state_format.h"
#include "runtime/checkpoint_format.h"

namespace headrace {
namespace {

constexpr std::uint32_t kMaxIds = 1 << 24;

bool known(ScalarType type) { return type <= ScalarType::fp16; }

}  // namespace

Status TensorTable::check(const TensorSpec& spec) const {
  if (!valid_tensor_name(spec.name))
    return invalid(
        fmt::format("tensor {} needs a name of 1 to {} bytes of UTF-8 without control characters",
                    tensors_.size(), kMaxNameBytes));
  if (by_name_.contains(spec.name))
    return invalid(fmt::format("tensor \"{}\" was added before: names are unique", spec.name));
  if (spec.count > kMaxElements)
    return invalid(fmt::format("tensor \"{}\" has {} elements: the most is {}", spec.name,
                               spec.count, kMaxElements));
  if (!known(spec.param) || !known(spec.grad))
    return invalid(fmt::format("tensor \"{}\" has an unknown element type", spec.name));
  if (index_of(spec.unit) >= kMaxIds || index_of(spec.group) >= kMaxIds)
    return invalid(fmt::format("tensor \"{}\" has unit {} and group {}: both are below {}",
                               spec.name, index_of(spec.unit), index_of(spec.group), kMaxIds));
  return spec.alias_of ? check_alias(spec) : Status();
}

Status TensorTable::check_alias(const TensorSpec& spec) const {
  if (index_of(*spec.alias_of) >= tensors_.size())
    return invalid(
        fmt::format("tensor \"{}\" is an alias of tensor {}, which was not added: add it first",
                    spec.name, index_of(*spec.alias_of)));
  const Tensor& other = tensors_[index_of(*spec.alias_of)];
  if (other.spec.count != spec.count || other.spec.param != spec.param ||
      other.spec.trainable != spec.trainable)
    return invalid(fmt::format(
        "tensor \"{}\" with {} elements cannot be an alias of \"{}\" with {}: count, type and "
        "trainable must be the same",
        spec.name, spec.count, other.spec.name, other.spec.count));
  return {};
}

Result<TensorId> TensorTable::add(TensorSpec spec) {
  HEADRACE_TRY(check(spec));
  const TensorId id{static_cast<std::uint32_t>(tensors_.size())};
  by_name_.emplace(spec.name, id);
  Tensor tensor;
  tensor.root = spec.alias_of ? tensors_[index_of(*spec.alias_of)].root : id;
  tensor.is_alias = tensor.root != id;
  tensor.padded = round_up(spec.count, kSegmentElements);
  tensor.spec = std::move(spec);
  tensors_.push_back(std::move(tensor));
  return id;
}

Result<const Tensor*> TensorTable::find(TensorId id) const {
  if (index_of(id) < tensors_.size()) return &tensors_[index_of(id)];
  return invalid(
      fmt::format("there is no tensor {}: {} were added", index_of(id), tensors_.size()));
}

std::vector<UnitId> TensorTable::units() const {
  std::vector<UnitId> units;
  for (const Tensor& tensor : tensors_) units.push_back(tensor.spec.unit);
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

std::size_t TensorTable::groups() const {
  std::size_t groups = 0;
  for (const Tensor& tensor : tensors_)
    if (tensor.spec.trainable && !tensor.is_alias)
      groups = std::max<std::size_t>(groups, index_of(tensor.spec.group) + 1);
  return groups;
}

}  // namespace headrace
