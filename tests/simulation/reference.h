// Reference: what an engine's state must be, in plain vectors: one tensor after the other, without
// shards, tiers, slots or queues. Only the arithmetic of optim_cpu is shared with the engine, which
// has tests of its own against float64. Copyable: a copy is what a checkpoint holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/bytes.h"
#include "io/memory.h"
#include "runtime/options.h"

namespace headrace::simulation {

// What a step is to report.
struct Verdict {
  bool applied = false;
  std::optional<TensorId> bad_tensor;
  std::uint64_t bad_index = 0;
  double grad_norm = 0;
  double clip_factor = 1;
};

template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class Other>
  AlignedAllocator(const AlignedAllocator<Other>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(64)));
  }
  void deallocate(T* data, std::size_t) { ::operator delete(data, std::align_val_t(64)); }
  bool operator==(const AlignedAllocator&) const = default;
};
using AlignedBytes = std::vector<std::byte, AlignedAllocator<std::byte>>;

class Reference {
 public:
  // All zeros, and no gradients.
  explicit Reference(std::span<const TensorSpec> tensors);

  bool trainable(TensorId tensor) const { return of(tensor).spec.trainable; }
  TensorId root(TensorId tensor) const { return roots_[index_of(tensor)]; }
  // False: a second gradient for a type kept in 16 bits.
  bool takes_gradient(TensorId tensor) const;
  void put(TensorId tensor, const std::vector<std::byte>& gradient, ScalarType type);
  bool has_gradients() const;
  void drop_gradients();
  Verdict step(const StepOptions& options);

  void write(TensorId tensor, Kind kind, Range range, std::span<const std::byte> values);
  std::vector<std::byte> read(TensorId tensor, Kind kind, Range range) const;
  std::size_t element_bytes(TensorId tensor, Kind kind) const;
  std::uint64_t steps_of(TensorId tensor) const { return of(tensor).steps; }
  std::uint64_t state_hash() const;

 private:
  struct Tensor {
    TensorSpec spec;
    bool is_alias = false;
    std::uint64_t padded = 0;
    AlignedBytes state, param, grad;
    bool has_gradient = false;
    std::uint64_t steps = 0;
  };
  Tensor& of(TensorId tensor) { return tensors_[index_of(roots_[index_of(tensor)])]; }
  const Tensor& of(TensorId tensor) const { return tensors_[index_of(roots_[index_of(tensor)])]; }
  void judge(const StepOptions& options, Verdict& verdict) const;
  static void update(Tensor& tensor, const AdamW& group, double factor);

  std::vector<TensorId> roots_;
  std::vector<Tensor> tensors_;  // aliases: only their specs
};

}  // namespace headrace::simulation
