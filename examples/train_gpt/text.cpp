#include "examples/train_gpt/text.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "examples/train_gpt/random.h"
#include "examples/train_gpt/utf8.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using headrace::Code;
using headrace::Result;
using headrace::Status;

using ByteVector = std::vector<std::uint8_t>;

Status failed(Code code, const fs::path& path, const std::string& why) {
  return {code, fmt::format("--data {}: {}", path.string(), why)};
}

// The whole file; or, when only text is wanted, nothing as soon as it shows that it is none.
Result<ByteVector> read_file(const fs::path& path, bool only_text) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return failed(Code::io, path, "cannot be opened");
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  ByteVector bytes;
  std::size_t checked = 0;
  while (file) {
    const std::size_t old = bytes.size();
    bytes.resize(old + kPiece);
    file.read(reinterpret_cast<char*>(bytes.data() + old), static_cast<std::streamsize>(kPiece));
    if (file.bad()) return failed(Code::io, path, "cannot be read");
    bytes.resize(old + static_cast<std::size_t>(file.gcount()));
    while (only_text && checked < bytes.size()) {
      const std::size_t length = character_length(std::span(bytes).subspan(checked));
      const bool cut = bytes.size() - checked < 4 && !file.eof();  // goes on in the next piece
      if (length == 0 && !cut) return ByteVector{};
      if (length == 0) break;
      checked += length;
    }
  }
  return bytes;
}

bool skipped_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name == "build";
}

// Paths below `root`, in byte order.
Result<std::vector<std::string>> files_below(const fs::path& root) {
  std::vector<std::string> found;
  std::error_code error;
  fs::recursive_directory_iterator at(root, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const fs::file_status status = at->symlink_status(error);
    if (error) break;
    if (fs::is_directory(status) && skipped_folder(at->path())) at.disable_recursion_pending();
    if (fs::is_regular_file(status)) {
      found.push_back(at->path().lexically_relative(root).generic_string());
    }
  }
  if (error) return failed(Code::io, root, error.message());
  std::ranges::sort(found);
  return found;
}

Result<ByteVector> read_folder(const fs::path& root) {
  HEADRACE_ASSIGN(const std::vector<std::string> files, files_below(root));
  ByteVector all;
  for (const std::string& file : files) {
    HEADRACE_ASSIGN(const ByteVector bytes, read_file(root / file, true));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  if (all.empty())
    return failed(Code::invalid, root, "holds no text: no UTF-8 file with a byte in it");
  return all;
}

void append_sequence(Batch& batch, std::span<const std::uint8_t> from, std::size_t context) {
  batch.tokens.insert(batch.tokens.end(), from.begin(),
                      from.begin() + static_cast<std::ptrdiff_t>(context));
  batch.targets.insert(batch.targets.end(), from.begin() + 1,
                       from.begin() + static_cast<std::ptrdiff_t>(context) + 1);
}

}  // namespace

Result<Text> Text::read(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return failed(Code::invalid, path, "there is no such file or folder");
  if (fs::is_directory(status)) {
    HEADRACE_ASSIGN(ByteVector bytes, read_folder(path));
    return Text(std::move(bytes));
  }
  if (!fs::is_regular_file(status)) {
    return failed(Code::invalid, path, "neither a regular file nor a folder");
  }
  HEADRACE_ASSIGN(ByteVector bytes, read_file(path, false));
  if (bytes.empty()) return failed(Code::invalid, path, "the file is empty");
  return Text(std::move(bytes));
}

std::span<const std::uint8_t> Text::training() const {
  return std::span(bytes_).first(bytes_.size() - bytes_.size() / 10);
}

std::span<const std::uint8_t> Text::held_out() const {
  return std::span(bytes_).last(bytes_.size() / 10);
}

std::uint64_t Text::fingerprint() const {
  std::uint64_t hash = mix(bytes_.size());
  for (const std::uint8_t byte : bytes_) hash = (hash ^ byte) * 0x100000001B3U;  // FNV-1a
  return mix(hash);
}

Status Text::long_enough(std::size_t context) const {
  const std::size_t needed = 10 * (context + 1);
  if (bytes_.size() >= needed) return {};
  return {Code::invalid,
          fmt::format(
              "the text has {} bytes, too short for a context of {}: its last tenth is held out "
              "and must hold {} bytes; give --data with at least {} bytes, or a smaller --context",
              bytes_.size(), context, context + 1, needed)};
}

Batch random_batch(std::span<const std::uint8_t> part, const ModelShape& shape, BatchPlace place) {
  constexpr std::uint64_t kPurpose = 0x6261746368;
  const std::size_t starts = part.size() - shape.context;
  Batch batch;
  for (std::size_t i = 0; i < shape.batch; ++i) {
    const std::uint64_t bits =
        random_bits(mix(place.seed ^ kPurpose), place.step, place.micro * shape.batch + i);
    append_sequence(batch, part.subspan(bits % starts), shape.context);
  }
  return batch;
}

Batch even_batch(std::span<const std::uint8_t> part, const ModelShape& shape, std::size_t index,
                 std::size_t count) {
  const std::size_t starts = part.size() - shape.context, places = count * shape.batch;
  Batch batch;
  for (std::size_t i = 0; i < shape.batch; ++i) {
    const std::size_t place = index * shape.batch + i;
    append_sequence(batch,
                    part.subspan(place * (starts - 1) / std::max<std::size_t>(1, places - 1)),
                    shape.context);
  }
  return batch;
}

}  // namespace train_gpt
