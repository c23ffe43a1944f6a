// File: an open file of an IoQueue. Copyable; the file closes when the last copy and the last
// request on it are gone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "io/check.h"

namespace headrace {

enum class FileMode : std::uint8_t {
  scratch,    // an unnamed file in the folder `path`, reserved to its full size; gone with the
              // process
  create,     // a new file named `path`, 0600, locked while it is open; it must not exist
  exclusive,  // the regular file named `path`, 0600, made and reserved when it does not exist;
              // locked while it is open: Code::locked when another opening of it lives
  overwrite,  // the regular file named `path`, locked while it is open. Code::unavailable unless it
              // has exactly `size` bytes, all of them reserved, and no other name; Code::locked
              // when another opening that locks or shares it lives
  read_only,  // an existing regular file; links are not followed
  shared,     // as read_only; Code::locked while an opening that locks it lives
};

constexpr bool only_reads(FileMode mode) noexcept {
  return mode == FileMode::read_only || mode == FileMode::shared;
}

struct FileSpec {
  std::filesystem::path path;
  FileMode mode = FileMode::scratch;
  std::uint64_t size = 0;  // reserved at once (scratch, exclusive), or when not 0 (create)
  bool direct = true;      // ask for O_DIRECT; an engine that cannot says so in OpenFile::direct
  std::uint32_t alignment = 0;  // 0: what the file system says; else at least this (tests)
};

// What an engine knows of an open file.
struct OpenFile {
  int handle = -1;              // an engine's own number: a descriptor, or an index
  std::uint64_t size = 0;       // when opened
  std::uint32_t alignment = 1;  // of address, offset and length of each transfer
  bool direct = false;          // past the page cache
  bool existed = false;         // exclusive: it was there before
  bool fixed_size = false;      // scratch: a transfer beyond its end is a wrong argument
  std::string name;             // for messages
};

class File {
 public:
  File() = default;
  File(OpenFile open, std::function<void(const OpenFile&)> close)
      : open_(new OpenFile(std::move(open)), [close = std::move(close)](const OpenFile* file) {
          close(*file);
          delete file;
        }) {}

  explicit operator bool() const noexcept { return open_ != nullptr; }
  const OpenFile& info() const {
    HEADRACE_CHECK(open_ != nullptr);
    return *open_;
  }

 private:
  std::shared_ptr<const OpenFile> open_;
};

}  // namespace headrace
