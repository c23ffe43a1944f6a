// MemoryTraffic: one thread that reads and writes memory as fast as it goes, from its making until
// it is destroyed: what an update in DRAM does to whoever else needs the memory.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "bench/huge_pages.h"

namespace headrace::bench {

class MemoryTraffic {
 public:
  // Over 256 MiB, which no cache holds; `out_of_memory` as pages are.
  static Result<std::unique_ptr<MemoryTraffic>> start();
  ~MemoryTraffic();
  MemoryTraffic(const MemoryTraffic&) = delete;
  MemoryTraffic& operator=(const MemoryTraffic&) = delete;

 private:
  explicit MemoryTraffic(Pages pages);
  void run();

  Pages pages_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace headrace::bench
