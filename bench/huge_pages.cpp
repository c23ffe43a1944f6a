#include "bench/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace headrace::bench {
namespace {

constexpr std::size_t kHugePage = 2 * kMiB;

// The kilobytes of "AnonHugePages:  2048 kB", 0 for any other line.
unsigned long huge_kilobytes(const std::string& line) {
  unsigned long kilobytes = 0;
  return std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kilobytes) == 1 ? kilobytes : 0;
}

}  // namespace

Result<Pages> Pages::allocate(std::size_t size) {
  const std::size_t whole = round_up(size > 0 ? size : 1, kHugePage);
  const std::size_t mapped = whole + kHugePage;
  void* const start =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) {
    return Status(Code::out_of_memory,
                  fmt::format("the benchmark needs {}: close other programs or measure less",
                              format_bytes(mapped)));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  auto* const aligned = static_cast<std::byte*>(start) + (round_up(address, kHugePage) - address);
  madvise(aligned, whole, MADV_HUGEPAGE);
  return Pages({static_cast<std::byte*>(start), mapped}, {aligned, whole});
}

Pages::Pages(Pages&& other) noexcept
    : mapping_(std::exchange(other.mapping_, {})), bytes_(std::exchange(other.bytes_, {})) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  if (this == &other) return *this;
  release();
  mapping_ = std::exchange(other.mapping_, {});
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

Pages::~Pages() { release(); }

void Pages::release() noexcept {
  if (!mapping_.empty()) munmap(mapping_.data(), mapping_.size());
}

bool Pages::huge() const {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  const auto address = reinterpret_cast<unsigned long>(bytes_.data());
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      inside = begin <= address && address < end;
    } else if (inside && huge_kilobytes(line) > 0) {
      return true;
    }
  }
  return false;
}

}  // namespace headrace::bench
