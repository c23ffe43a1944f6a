// The model's parameters, gradients and optimizer state in an engine, and the passes over its
// units.
//
// Used by one thread. Each pass leases one unit after another: a unit's parameters become fp32 in
// scratch, the model computes, the lease is released; nothing is leased between passes. Gradients
// go to the engine as they are produced, from one of two buffers, so that the next unit computes
// while the engine takes them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/train_gpt/model.h"
#include "examples/train_gpt/options.h"
#include "runtime/engine.h"

namespace train_gpt {

class HostedModel {
 public:
  // Adds every parameter and seals the engine. The platform must outlive the model.
  static headrace::Result<std::unique_ptr<HostedModel>> open(headrace::Platform& platform,
                                                             const Options& options);
  // The starting weights.
  headrace::Status initialise(std::uint64_t seed);

  headrace::Status forward(Model& model);
  // After model.loss(); gradients of scale * loss.
  headrace::Status backward(Model& model, float scale);

  headrace::Engine& engine() { return *engine_; }
  // Waits with the engine's deadline, and counts the time.
  headrace::Status wait(const headrace::Event& event);
  headrace::Nanoseconds waited() const { return waited_; }  // so far

  const std::vector<Parameter>& list() const { return list_; }
  headrace::TensorId id(std::size_t parameter) const { return ids_[parameter]; }
  std::uint64_t scratch_bytes() const;

 private:
  // The gradients of one unit on their way into the engine.
  struct Outgoing {
    std::vector<float> memory;
    std::vector<headrace::Event> taken;
  };
  using UnitBody = std::function<void(Weights weights)>;

  HostedModel(headrace::Platform& platform, const ModelShape& shape);
  headrace::Status add_parameters();
  headrace::Status with_unit(std::size_t unit, const char* name, const UnitBody& body);
  headrace::Status backward_unit(Model& model, std::size_t unit, float scale);
  std::vector<std::span<const float>> to_fp32(const headrace::Lease& lease, std::size_t unit);
  std::vector<std::span<float>> cut(std::vector<float>& memory, std::size_t unit) const;
  void traced(std::size_t unit, const char* name, headrace::Nanoseconds begin);

  // Constant after open().
  headrace::Platform& platform_;
  ModelShape shape_;
  std::vector<Parameter> list_;
  std::vector<std::vector<std::size_t>> of_unit_;  // indices into list_
  std::vector<headrace::TensorId> ids_;
  // The pass under way.
  std::vector<float> weights_;
  std::array<Outgoing, 2> outgoing_;
  headrace::Nanoseconds waited_{0};
  // Last, so that it ends before the memory that it may still read.
  std::unique_ptr<headrace::Engine> engine_;
};

}  // namespace train_gpt
