// Device: hands out memory (of its own and of the host, fit for its transfers) and streams.
// Stream: a lane on a device; copies and launches, in order.
//
// The halves in this header are checked and shared by all devices; a device itself is one .cpp
// without a header. Calls may come from any thread. Memory and streams must be gone before their
// device is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/event.h"
#include "io/lane.h"
#include "io/memory.h"
#include "io/status.h"

namespace headrace {

// A CUstream of the caller's, as a pointer; null on the host device.
using NativeStream = void*;

class Stream {
 public:
  virtual ~Stream() = default;
  // Copies dst.size bytes; both sizes must be equal (Code::invalid otherwise). Zero bytes is legal.
  Event copy(MemView dst, ConstMemView src, Event after = {});
  // Runs `work` when its turn comes; it queues on the device and returns.
  Event launch(std::function<Status(NativeStream)> work, Event after = {});
  // Keeps the stream busy for a time, as a kernel would. For benchmarks and tests.
  Event occupy(Nanoseconds time, const char* name, Event after = {});
  // Ends what is queued and has not started with Code::cancelled.
  virtual void cancel() = 0;
  virtual Usage usage() const = 0;

 private:
  virtual Event do_copy(MemView dst, ConstMemView src, Event after) = 0;
  virtual Event do_launch(std::function<Status(NativeStream)> work, Nanoseconds at_least,
                          const char* name, Event after) = 0;
};

// What a device has handed out of what it may.
struct MemoryUse {
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;
  std::uint64_t peak = 0;
};

using LaneFactory = std::function<std::unique_ptr<Lane>(LaneOptions)>;

// For simulation: `plain` is small ordinary memory, host and device alike; `addresses` faults when
// it is touched, and costs nothing.
enum class HostMemoryKind : std::uint8_t { pages, plain, addresses };

struct HostDeviceOptions {
  std::uint64_t copy_bytes_per_second = 0;  // per stream; 0: as fast as memcpy
  std::uint64_t device_bytes = std::uint64_t{1} << 40;
  std::uint64_t host_bytes = std::uint64_t{1} << 62;  // the budget for host memory
  HostMemoryKind memory = HostMemoryKind::pages;
  LaneFactory make_lane;                             // empty: Lane::threaded
  std::function<void(std::string_view)> on_message;  // warnings, each once (no huge pages, ...)
};

class Device {
 public:
  virtual ~Device() = default;
  static std::unique_ptr<Device> open_host(HostDeviceOptions options = {});
  // Code::unavailable when built without CUDA, or on a machine without a driver.
  static Result<std::unique_ptr<Device>> open_cuda(int ordinal);

  // Zeroed, and aligned to its size's next power of two within [4 KiB, 2 MiB]. Host memory is of
  // huge pages when granted, touched on the NUMA node asked for (-1: any), never forked, never
  // dumped. Code::out_of_memory, with the sum, when the budget does not hold it; nothing is
  // allocated then. Zero bytes gives an empty Memory.
  Result<Memory> allocate(Home home, std::size_t size, int numa_node = -1);
  MemoryUse use(Home home) const;
  std::unique_ptr<Stream> open_stream(std::string name);
  virtual std::string describe() const = 0;

 protected:
  explicit Device(std::uint64_t device_bytes, std::uint64_t host_bytes);

 private:
  virtual Result<MemView> do_allocate(Home home, std::size_t size, int numa_node) = 0;
  virtual void do_free(MemView memory) = 0;
  virtual std::unique_ptr<Stream> do_open_stream(std::string name) = 0;
  struct Budget;
  std::shared_ptr<Budget> budget_;
};

}  // namespace headrace
