// The text that is trained on: one file, or every text file of a folder, cut into training and
// held-out.
//
// Read once, whole, into memory. Which batch a step sees depends on seed and step alone, so a
// resumed run needs nothing but its step number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "examples/train_gpt/parameters.h"
#include "runtime/engine.h"

namespace train_gpt {

class Text {
 public:
  // A file is taken as it is. Of a folder: regular files that are UTF-8, one after another in byte
  // order of their paths; no links, no hidden folders, no folder named `build`. Errors: `invalid`
  // (not there, neither file nor folder, no text in it), `io`.
  static headrace::Result<Text> read(const std::filesystem::path& path);
  explicit Text(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)) {}

  // The last tenth is held out.
  std::span<const std::uint8_t> training() const;
  std::span<const std::uint8_t> held_out() const;
  std::size_t size() const { return bytes_.size(); }
  // Tells one text from another when a run is resumed.
  std::uint64_t fingerprint() const;

  // `invalid` unless both parts hold one sequence and the byte after it.
  headrace::Status long_enough(std::size_t context) const;

 private:
  std::vector<std::uint8_t> bytes_;
};

// batch x context bytes, and the byte that follows each.
struct Batch {
  std::vector<std::uint8_t> tokens, targets;
};

struct BatchPlace {
  std::uint64_t seed = 0, step = 0, micro = 0;
};
// From random places of `part`, which must be longer than the context.
Batch random_batch(std::span<const std::uint8_t> part, const ModelShape& shape, BatchPlace place);
// The index-th of `count` batches that lie evenly over `part`: the same for every seed and step.
Batch even_batch(std::span<const std::uint8_t> part, const ModelShape& shape, std::size_t index,
                 std::size_t count);

}  // namespace train_gpt
