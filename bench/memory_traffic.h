// MemoryTraffic: one thread that reads and writes memory as fast as it goes, from its making until
// it is destroyed: what an update in DRAM does to whoever else needs the memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>

#include "bench/huge_pages.h"

namespace headrace::bench {

class MemoryTraffic {
 public:
  // Enough that no cache holds it, touched.
  static Result<Pages> allocate();
  // Over those, which must outlive it.
  explicit MemoryTraffic(const Pages& pages);
  ~MemoryTraffic();
  MemoryTraffic(const MemoryTraffic&) = delete;
  MemoryTraffic& operator=(const MemoryTraffic&) = delete;

 private:
  void run();

  const std::span<std::uint64_t> words_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace headrace::bench
