#include "io/host_memory.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "io/check.h"

namespace headrace {
namespace {

constexpr std::size_t kParallelTouchBytes = 256 * kMiB;
constexpr std::size_t kTouchThreads = 8;
constexpr std::size_t kMostBytes = std::size_t{1} << 60;
constexpr std::size_t kLeastPerTail = 64;

std::size_t whole_pages(std::size_t size) { return round_up(size, kPageBytes); }

// With no tail of small pages: io_uring treats a registered buffer as huge pages only if it is made
// of nothing else; reads of 1 MiB x 32 from a virtio disk then took 7 instead of 12 ms of CPU per
// GB. Only where that makes it longer by a 64th at most: what memory costs is told from its size.
std::size_t mapped_size(std::size_t size) {
  const std::size_t huge = round_up(size, kHugePageBytes);
  return huge - size <= size / kLeastPerTail ? huge : whole_pages(size);
}

Status no_memory(std::size_t size, int error) {
  return Status(Code::out_of_memory, fmt::format("the machine did not give {}: {}",
                                                 format_bytes(size), std::strerror(error)));
}

// Address space alone, `length` bytes (whole pages) at a multiple of `alignment`.
Result<std::byte*> reserve_addresses(std::size_t length, std::size_t alignment) {
  const std::size_t room = length + alignment - kPageBytes;
  void* const found =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return no_memory(length, errno);
  auto* const begin = static_cast<std::byte*>(found);
  const std::size_t front = round_up(reinterpret_cast<std::uintptr_t>(begin), alignment) -
                            reinterpret_cast<std::uintptr_t>(begin);
  if (front > 0) munmap(begin, front);
  if (const std::size_t back = room - front - length; back > 0)
    munmap(begin + front + length, back);
  return begin + front;
}

void unmap(std::byte* data, std::size_t size) noexcept {
  HEADRACE_CHECK(munmap(data, whole_pages(size)) == 0);
}

// Writes to each page, so that it is there and costs nothing later. 0, or an errno.
int touch(Bytes pages) {
  if (madvise(pages.data(), pages.size(), MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL) return errno;
  for (std::size_t at = 0; at < pages.size(); at += kPageBytes)  // Linux before 5.14
    *static_cast<volatile std::byte*>(pages.data() + at) = std::byte{0};
  return 0;
}

std::size_t allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&allowed)));
}

Status touch_all(Bytes pages) {
  const std::size_t parts =
      pages.size() < kParallelTouchBytes ? 1 : std::min(kTouchThreads, allowed_cpus());
  const std::size_t part = round_up(pages.size() / parts + 1, kHugePageBytes);
  std::vector<int> errors(parts, 0);
  std::vector<std::thread> threads;
  for (std::size_t k = 1; k < parts; ++k) {
    const std::size_t begin = std::min(k * part, pages.size());
    threads.emplace_back(
        [mine = pages.subspan(begin, std::min(part, pages.size() - begin)), error = &errors[k]] {
          pthread_setname_np(pthread_self(), "touch");
          *error = touch(mine);
        });
  }
  errors[0] = touch(pages.first(std::min(part, pages.size())));
  for (std::thread& thread : threads) thread.join();
  for (const int error : errors)
    if (error != 0) return no_memory(pages.size(), error);
  return {};
}

// A preference: what the kernel refuses to do without a privilege is done without.
Status prefer_node(Bytes pages, int numa_node) {
  constexpr int kMostNodes = 1024;
  if (numa_node < 0) return {};
  std::vector<unsigned long> mask(kMostNodes / (8 * sizeof(unsigned long)) + 1, 0);
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  const auto node = static_cast<std::size_t>(numa_node);
  if (numa_node < kMostNodes) mask[node / kBits] |= 1UL << (node % kBits);
  const long how = syscall(SYS_mbind, pages.data(), pages.size(), MPOL_PREFERRED, mask.data(),
                           static_cast<unsigned long>(kMostNodes), 0U);
  if (numa_node >= kMostNodes || (how != 0 && errno == EINVAL))
    return Status(Code::invalid, fmt::format("there is no NUMA node {} here", numa_node));
  return {};
}

Status prepare(Bytes pages, int numa_node) {
  madvise(pages.data(), pages.size(), MADV_HUGEPAGE);  // refused: huge_page_share tells
  madvise(pages.data(), pages.size(), MADV_DONTFORK);
  madvise(pages.data(), pages.size(), MADV_DONTDUMP);
  HEADRACE_TRY(prefer_node(pages, numa_node));
  return touch_all(pages);
}

Result<Bytes> map_shared(int file, std::size_t length, std::size_t alignment, int protection) {
  HEADRACE_ASSIGN(std::byte * place, reserve_addresses(length, alignment));
  if (mmap(place, length, protection, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    const int error = errno;
    unmap(place, length);
    return no_memory(length, error);
  }
  return Bytes(place, length);
}

Result<HiddenPages> map_twice(int file, std::size_t size) {
  const std::size_t length = whole_pages(size);
  if (ftruncate(file, static_cast<off_t>(length)) != 0) return no_memory(size, errno);
  HEADRACE_ASSIGN(const Bytes bytes,
                  map_shared(file, length, page_alignment(size), PROT_READ | PROT_WRITE));
  if (Status how = prepare(bytes, -1); !how.ok()) {
    unmap(bytes.data(), length);
    return how;
  }
  Result<Bytes> name = map_shared(file, length, page_alignment(size), PROT_NONE);
  if (!name.ok()) {
    unmap(bytes.data(), length);
    return name.status();
  }
  madvise(name->data(), length, MADV_DONTFORK);
  madvise(name->data(), length, MADV_DONTDUMP);  // a dump reads what the process itself may not
  return HiddenPages{name->data(), bytes.first(size)};
}

// One mapping of /proc/self/smaps.
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  std::uint64_t resident = 0, huge = 0;
};

void count_line(const std::string& line, Mapping& mapping) {
  std::uint64_t kib = 0;
  if (std::sscanf(line.c_str(), "Rss: %" SCNu64, &kib) == 1) mapping.resident = kib * kKiB;
  if (std::sscanf(line.c_str(), "AnonHugePages: %" SCNu64, &kib) == 1) mapping.huge = kib * kKiB;
}

}  // namespace

std::size_t page_alignment(std::size_t size) noexcept {
  return size >= kHugePageBytes ? kHugePageBytes : std::max(kPageBytes, std::bit_ceil(size));
}

Result<Bytes> reserve_pages(std::size_t size) {
  HEADRACE_CHECK(size > 0);
  if (size > kMostBytes) return no_memory(size, ENOMEM);
  HEADRACE_ASSIGN(std::byte * begin, reserve_addresses(mapped_size(size), page_alignment(size)));
  return Bytes(begin, size);
}

Result<Bytes> map_pages(std::size_t size, int numa_node) {
  HEADRACE_CHECK(size > 0);
  if (size > kMostBytes) return no_memory(size, ENOMEM);
  const std::size_t length = mapped_size(size);
  HEADRACE_ASSIGN(std::byte * place, reserve_addresses(length, page_alignment(size)));
  const Bytes pages(place, length);
  Status how;
  if (mprotect(place, length, PROT_READ | PROT_WRITE) != 0) how = no_memory(size, errno);
  if (how.ok()) how = prepare(pages, numa_node);
  if (how.ok()) return pages.first(size);
  unmap(place, length);
  return how;
}

void unmap_pages(Bytes pages) noexcept { unmap(pages.data(), mapped_size(pages.size())); }

double huge_page_share(ConstBytes pages) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pages.data());
  const std::uintptr_t end = begin + pages.size();
  std::ifstream file("/proc/self/smaps");
  Mapping sum, mapping;
  const auto add = [&] {
    if (mapping.end <= begin || mapping.begin >= end) return;
    sum.resident += mapping.resident;
    sum.huge += mapping.huge;
  };
  for (std::string line; std::getline(file, line);) {
    Mapping next;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &next.begin, &next.end) == 2) {
      add();
      mapping = next;
    } else {
      count_line(line, mapping);
    }
  }
  add();
  return sum.resident == 0 ? 0 : static_cast<double>(sum.huge) / static_cast<double>(sum.resident);
}

Result<HiddenPages> map_hidden_pages(std::size_t size) {
  HEADRACE_CHECK(size > 0);
  if (size > kMostBytes) return no_memory(size, ENOMEM);
  const int file = memfd_create("headrace device", MFD_CLOEXEC);
  if (file < 0) return no_memory(size, errno);
  Result<HiddenPages> pages = map_twice(file, size);
  close(file);
  return pages;
}

void unmap_hidden_pages(const HiddenPages& pages) noexcept {
  unmap(pages.name, pages.bytes.size());
  unmap(pages.bytes.data(), pages.bytes.size());
}

}  // namespace headrace
