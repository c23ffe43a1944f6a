#include "bench/memory_traffic.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace headrace::bench {
namespace {

constexpr std::size_t kBytes = 256 * kMiB;
constexpr std::size_t kWords = kMiB / sizeof(std::uint64_t);  // between two looks at the flag

}  // namespace

Result<std::unique_ptr<MemoryTraffic>> MemoryTraffic::start() {
  HEADRACE_ASSIGN(Pages pages, Pages::allocate(kBytes));
  std::ranges::fill(pages.bytes(), std::byte{0});  // touched before anything is timed
  return std::unique_ptr<MemoryTraffic>(new MemoryTraffic(std::move(pages)));
}

MemoryTraffic::MemoryTraffic(Pages pages) : pages_(std::move(pages)), thread_([this] { run(); }) {}

MemoryTraffic::~MemoryTraffic() {
  stop_ = true;
  thread_.join();
}

void MemoryTraffic::run() {
  const std::span<std::uint64_t> words = pages_.as<std::uint64_t>();
  for (std::size_t at = 0; !stop_; at = (at + kWords) % words.size())
    for (std::uint64_t& word : words.subspan(at, kWords)) ++word;
}

}  // namespace headrace::bench
