#include "bench/raw_file.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace headrace::bench {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// A file made with a name and unlinked at once, where the file system knows no other way.
int open_unlinked(const std::filesystem::path& folder, int flags) {
  std::string name = folder / ".headrace-bench-XXXXXX";
  const int descriptor = mkostemp(name.data(), flags | O_CLOEXEC);
  if (descriptor >= 0) unlink(name.c_str());
  return descriptor;
}

int open_unnamed(const std::filesystem::path& folder, int flags) {
  const int descriptor = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  return descriptor < 0 && errno == EOPNOTSUPP ? open_unlinked(folder, flags) : descriptor;
}

// Some file systems accept O_DIRECT and copy through the page cache: only an alignment tells.
bool truly_direct(int descriptor) {
#ifdef STATX_DIOALIGN
  struct statx facts {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) != 0) return false;
  return (facts.stx_mask & STATX_DIOALIGN) != 0 && facts.stx_dio_offset_align != 0 &&
         facts.stx_dio_offset_align <= kSector && facts.stx_dio_mem_align <= kSector;
#else
  return descriptor >= 0;
#endif
}

Status reserve(int descriptor, const std::filesystem::path& folder, std::uint64_t size) {
  if (fallocate(descriptor, 0, 0, static_cast<off_t>(size)) == 0) return {};
  const int error = errno;
  if (error == EOPNOTSUPP && ftruncate(descriptor, static_cast<off_t>(size)) == 0) return {};
  if (ftruncate(descriptor, 0) != 0) return {Code::io, reason(errno)};
  std::error_code ignored;
  const auto space = std::filesystem::space(folder, ignored);
  return {error == ENOSPC || error == EFBIG ? Code::out_of_space : Code::io,
          fmt::format("the raw disk loop needs {} in {}, {} free: {}; free space or measure less",
                      format_bytes(size), folder.string(), format_bytes(space.available),
                      reason(error))};
}

// splitmix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators).
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t bits = state;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

}  // namespace

Result<RawFile> RawFile::create(const std::filesystem::path& folder, std::uint64_t size,
                                bool direct) {
  int descriptor = direct ? open_unnamed(folder, O_DIRECT) : -1;
  const bool accepted = descriptor >= 0;
  if (!accepted) descriptor = open_unnamed(folder, 0);
  if (descriptor < 0) {
    return Status(Code::io, fmt::format("cannot create a file in {}: {}; name another folder",
                                        folder.string(), reason(errno)));
  }
  RawFile file(descriptor, accepted && truly_direct(descriptor));
  HEADRACE_TRY(reserve(descriptor, folder, size));
  return file;
}

Status check_space(std::string_view who, const std::filesystem::path& folder, std::uint64_t bytes) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error || bytes <= space.available) return {};
  return {Code::out_of_space,
          fmt::format("{} needs {} in {}, {} free: free some space, or measure less (--size)", who,
                      format_bytes(bytes), folder.string(), format_bytes(space.available))};
}

RawFile::RawFile(RawFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), direct_(other.direct_) {}

RawFile& RawFile::operator=(RawFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(direct_, other.direct_);
  return *this;
}

RawFile::~RawFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void fill_random(Bytes bytes, std::uint64_t seed) {
  for (std::size_t at = 0; at + sizeof seed <= bytes.size(); at += sizeof seed) {
    const std::uint64_t word = next_random(seed);
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

void put_marks(Bytes block, const Mark& mark) {
  for (std::size_t at = 0; at < block.size(); at += kSector) {
    std::memcpy(block.data() + at, &mark, sizeof mark);
  }
}

Mark mark_at(ConstBytes block, std::size_t sector) {
  Mark mark;
  std::memcpy(&mark, block.data() + sector * kSector, sizeof mark);
  return mark;
}

}  // namespace headrace::bench
