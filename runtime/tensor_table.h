// The tensors of a model, as they were added: checked, numbered, aliases resolved.
//
// Pure data; the engine guards it. Filled before seal, constant after.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/status.h"
#include "runtime/options.h"

namespace headrace {

struct Tensor {
  TensorSpec spec;
  TensorId root{0};  // whose parameters and state it uses: itself, unless an alias
  bool is_alias = false;
  std::uint64_t padded = 0;  // count, rounded up to kSegmentElements
};

class TensorTable {
 public:
  // Code::invalid, naming the tensor, when the spec is wrong or does not fit those before.
  Result<TensorId> add(TensorSpec spec);

  std::size_t size() const noexcept { return tensors_.size(); }
  const std::vector<Tensor>& all() const noexcept { return tensors_; }
  // Code::invalid when there is no such tensor.
  Result<const Tensor*> find(TensorId id) const;
  const Tensor& operator[](TensorId id) const { return tensors_.at(index_of(id)); }
  // Every unit in use, in order.
  std::vector<UnitId> units() const;
  // One more than the highest group of a trainable tensor.
  std::size_t groups() const;

 private:
  Status check(const TensorSpec& spec) const;
  Status check_alias(const TensorSpec& spec) const;
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string, TensorId> by_name_;
};

}  // namespace headrace
