#include "examples/train_gpt/safetensors.h"

#include <bit>
#include <cstdint>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace train_gpt {
namespace {

using headrace::Code;
using headrace::Status;

static_assert(std::endian::native == std::endian::little);

// Names are those of parameters.cpp: letters, digits, dots and underscores, nothing to escape.
std::string header(std::span<const ExportedTensor> tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::size_t offset = 0;
  for (const ExportedTensor& tensor : tensors) {
    text +=
        fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", tensor.name,
                    tensor.type, fmt::join(tensor.shape, ","), offset, offset + tensor.bytes);
    offset += tensor.bytes;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');  // the tensors start at a multiple of 8
  return text;
}

void put(std::ofstream& file, std::span<const std::byte> bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

Status write_all(std::ofstream& file, std::span<const ExportedTensor> tensors,
                 const TensorContent& content) {
  const std::string text = header(tensors);
  const std::uint64_t length = text.size();
  put(file, std::as_bytes(std::span(&length, 1)));
  put(file, std::as_bytes(std::span(text)));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    HEADRACE_ASSIGN(const auto bytes, content(i));
    if (bytes.size() != tensors[i].bytes) {
      return {Code::invalid, fmt::format("{} has {} bytes instead of {}", tensors[i].name,
                                         bytes.size(), tensors[i].bytes)};
    }
    put(file, bytes);
  }
  file.close();
  return file ? Status() : Status(Code::io, "could not be written whole: is the disk full?");
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, std::span<const ExportedTensor> tensors,
                         const TensorContent& content) {
  const std::string where = path.string();
  const std::filesystem::path unfinished = where + ".unfinished";
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  if (!file) return {Code::io, fmt::format("{}: cannot be created", where)};
  std::error_code error;
  if (const Status status = write_all(file, tensors, content); !status.ok()) {
    std::filesystem::remove(unfinished, error);
    return status.with(where);
  }
  std::filesystem::rename(unfinished, path, error);
  return error ? Status(Code::io, fmt::format("{}: {}", where, error.message())) : Status();
}

}  // namespace train_gpt
