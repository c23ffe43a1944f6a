// Writes a safetensors file: 8 bytes of header length, a JSON header, then the tensors back to
// back.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace train_gpt {

struct ExportedTensor {
  std::string name;
  std::string type;  // "F32", "BF16", "F16"
  std::vector<std::size_t> shape;
  std::size_t bytes = 0;
};

// The bytes of the index-th tensor, little-endian in element order; valid until the next call.
using TensorContent =
    std::function<headrace::Result<std::span<const std::byte>>(std::size_t index)>;

// The file appears under its name when it is whole. Errors: `io`, or what `content` returned.
headrace::Status write_safetensors(const std::filesystem::path& path,
                                   std::span<const ExportedTensor> tensors,
                                   const TensorContent& content);

}  // namespace train_gpt
