#include "bench/memory_traffic.h"

#include <algorithm>

namespace headrace::bench {
namespace {

constexpr std::size_t kBytes = 256 * kMiB;
constexpr std::size_t kWords = kMiB / sizeof(std::uint64_t);  // between two looks at the flag

}  // namespace

Result<Pages> MemoryTraffic::allocate() {
  HEADRACE_ASSIGN(Pages pages, Pages::allocate(kBytes));
  std::ranges::fill(pages.bytes(), std::byte{0});
  return pages;
}

MemoryTraffic::MemoryTraffic(const Pages& pages)
    : words_(pages.as<std::uint64_t>()), thread_([this] { run(); }) {}

MemoryTraffic::~MemoryTraffic() {
  stop_ = true;
  thread_.join();
}

void MemoryTraffic::run() {
  for (std::size_t at = 0; !stop_; at = (at + kWords) % words_.size())
    for (std::uint64_t& word : words_.subspan(at, kWords)) ++word;
}

}  // namespace headrace::bench
