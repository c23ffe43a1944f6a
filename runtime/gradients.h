// Gradients: one buffer in DRAM for each trainable tensor, padded to kSegmentElements, and what is
// known of its contents: the state that decides between set and add, and the sums of squares that
// make the global norm.
//
// Called with the engine's mutex held. The work is queued on the optimizer's lane.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "io/event.h"
#include "io/lane.h"
#include "io/memory.h"
#include "optim_cpu/grad_norm.h"
#include "optim_cpu/team.h"
#include "runtime/layout.h"

namespace headrace {

enum class GradState : std::uint8_t {
  empty,         // the next gradient sets
  accumulating,  // the next gradient adds
};

struct Gradient {
  MemView buffer;  // padded elements of the type kept; the padding is zero
  std::uint64_t count = 0;
  ScalarType type = ScalarType::fp32;
  GradState state = GradState::empty;
  Event ready;                                  // every gradient put so far is in
  std::shared_ptr<std::vector<BlockSum>> sums;  // of the buffer, once ready
};

struct GlobalNorm {
  double norm = 0;  // of the gradients as they are kept
  std::optional<TensorId> bad_tensor;
  std::uint64_t bad_index = 0;  // the first element that is not finite
};

class Gradients {
 public:
  // `memory`: layout.grad_bytes of zeros.
  Gradients(const TensorTable& tensors, const ModelLayout& layout, MemView memory);

  // Queues set or add for a root tensor; `source` holds count elements of `type`.
  Event put(TensorId root, ConstMemView source, ScalarType type, Event after, Lane& lane,
            Owner owner, const Team& team);
  const Gradient& of(TensorId root) const { return gradients_[index_of(root)]; }
  // Those that have a gradient, in order of add.
  std::vector<TensorId> present() const;
  // Every gradient put so far is in.
  Event ready() const;
  // Only once ready: adds the blocks in double, in order of add and of elements.
  GlobalNorm norm() const;
  // All empty again. The buffers may be written when the shards are settled.
  void clear();

 private:
  std::vector<Gradient> gradients_;  // by tensor; only trainable roots are in use
};

}  // namespace headrace
