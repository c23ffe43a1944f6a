// The unnamed file of RawDisk, and the marked random bytes that are in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "bench/huge_pages.h"
#include "io/bytes.h"
#include "io/status.h"

namespace headrace::bench {

// An open file without a name, all of its space reserved, closed with the object.
class RawFile {
 public:
  // `out_of_space` when `size` does not fit, `io` when the folder cannot be written.
  // Past the page cache when `direct` is asked for and there is such a way.
  static Result<RawFile> create(const std::filesystem::path& folder, std::uint64_t size,
                                bool direct);
  RawFile(RawFile&& other) noexcept;
  RawFile& operator=(RawFile&& other) noexcept;
  ~RawFile();

  int descriptor() const noexcept { return descriptor_; }
  bool direct() const noexcept { return direct_; }

 private:
  RawFile(int descriptor, bool direct) : descriptor_(descriptor), direct_(direct) {}

  int descriptor_ = -1;
  bool direct_ = false;
};

// Before anything is written, so that a refusal takes no space from others: `out_of_space` when
// `folder` has less than `bytes` free, told with both sizes in the name of `who`.
Status check_space(std::string_view who, const std::filesystem::path& folder, std::uint64_t bytes);

// Which write of which block 4096 bytes belong to: the first 16 of them.
struct Mark {
  std::uint64_t block = 0;
  std::uint64_t write = 0;
  bool operator==(const Mark&) const = default;
};

inline constexpr std::size_t kSector = 4096;

void fill_random(Bytes bytes, std::uint64_t seed);  // size: a multiple of 8
void put_marks(Bytes block, const Mark& mark);      // at every kSector
Mark mark_at(ConstBytes block, std::size_t sector);

}  // namespace headrace::bench
