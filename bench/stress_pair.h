// StressPair: an engine whose I/O fails now and then, and its reference in memory. Every operation
// is done on the first, and when that went well on the second.
#pragma once

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "io/faults.h"
#include "runtime/engine.h"

namespace headrace::bench {

// How an operation ended on the engine under test; `wrong` is not empty when the bits differ.
struct Verdict {
  Status status;
  std::string wrong = {};
};

class StressPair {
 public:
  // A random machine and a random model with at most `state_bytes` of state; `folders` are this
  // pair's own.
  static Result<std::unique_ptr<StressPair>> open(std::vector<std::filesystem::path> folders,
                                                  std::uint64_t state_bytes, std::uint64_t seed);

  const std::string& words() const noexcept { return words_; }  // of the machine, in one line
  FaultScript& script() noexcept { return *script_; }
  Stats stats() const { return tested_->stats(); }
  bool reusable() const noexcept { return options_.durability == Durability::reusable; }
  std::uint64_t compared_bytes() const noexcept { return compared_; }

  Verdict step();         // gradients for a random subset, and a step; at times one that is skipped
  Verdict read();         // a random range of a random kind
  Verdict write();        // the same
  Verdict lease();        // a unit's parameters
  Verdict compare_all();  // every byte
  Verdict reopen();       // reusable only: a new engine takes up what this one leaves
  Verdict save(const std::filesystem::path& folder);
  Verdict load(const std::filesystem::path& folder);  // of both

 private:
  StressPair(std::vector<std::filesystem::path> folders, std::uint64_t seed);
  void choose_machine();
  void choose_model(std::uint64_t state_bytes);
  Result<std::unique_ptr<Engine>> open_engine(Platform& platform, const EngineOptions& options);
  Status write_weights(Engine& engine);
  Status put(Engine& engine, const std::vector<std::size_t>& windows, bool overflow);
  Verdict begin_anew(const Status& why);
  Verdict compare(std::size_t tensor, Kind kind, Range range);
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }
  Range some(const TensorSpec& spec);

  const std::vector<std::filesystem::path> folders_;
  std::mt19937_64 random_;
  const std::shared_ptr<FaultScript> script_ = std::make_shared<FaultScript>();
  std::vector<float> pool_;  // what gradients and weights are windows of
  EngineOptions options_;
  std::vector<TensorSpec> specs_;
  std::string words_;
  std::unique_ptr<Platform> platform_, calm_;
  std::unique_ptr<Engine> tested_, reference_;
  std::uint64_t compared_ = 0;
};

}  // namespace headrace::bench
