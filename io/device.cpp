#include "io/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "io/check.h"

namespace headrace {
namespace {

// Fires when `after` is over, as the memory may be in use until then.
Event refused(Status why, const Event& after) {
  return Event::all({Event::failed(std::move(why)), after.over()});
}

const char* name_of(Home home) { return home == Home::host ? "host" : "device"; }

}  // namespace

Event Stream::copy(MemView dst, ConstMemView src, Event after) {
  if (dst.size != src.size) {
    return refused(
        Status(Code::invalid,
               fmt::format("a copy of {} B into {} B: sizes must be equal", src.size, dst.size)),
        after);
  }
  return do_copy(dst, src, std::move(after));
}

Event Stream::launch(std::function<Status(NativeStream)> work, Event after) {
  HEADRACE_CHECK(work != nullptr);
  return do_launch(std::move(work), Nanoseconds(0), "launch", std::move(after));
}

Event Stream::occupy(Nanoseconds time, const char* name, Event after) {
  return do_launch([](NativeStream) { return Status(); }, time, name, std::move(after));
}

struct Device::Budget {
  MemoryUse& of(Home home) { return home == Home::host ? host : device; }

  Status reserve(Home home, std::uint64_t size) {
    const std::lock_guard lock(mutex);
    MemoryUse& use = of(home);
    const std::uint64_t left = use.capacity - use.used;
    if (size > left) {
      return Status(Code::out_of_memory,
                    fmt::format("{} asked of {} memory, {} of {} used, {} missing: free some, ask "
                                "for less, or raise the budget",
                                format_bytes(size), name_of(home), format_bytes(use.used),
                                format_bytes(use.capacity), format_bytes(size - left)));
    }
    use.used += size;
    use.peak = std::max(use.peak, use.used);
    return {};
  }

  void give_back(Home home, std::uint64_t size) {
    const std::lock_guard lock(mutex);
    of(home).used -= size;
  }

  std::mutex mutex;
  MemoryUse host;    // guarded by mutex
  MemoryUse device;  // guarded by mutex
};

Device::Device(std::uint64_t device_bytes, std::uint64_t host_bytes)
    : budget_(std::make_shared<Budget>()) {
  budget_->host.capacity = host_bytes;
  budget_->device.capacity = device_bytes;
}

Result<Memory> Device::allocate(Home home, std::size_t size, int numa_node) {
  if (size == 0) return Memory(MemView(nullptr, 0, home), nullptr);
  HEADRACE_TRY(budget_->reserve(home, size));
  Result<MemView> memory = do_allocate(home, size, numa_node);
  if (!memory.ok()) {
    budget_->give_back(home, size);
    return memory.status();
  }
  return Memory(*memory, [this](MemView given) {
    do_free(given);
    budget_->give_back(given.home, given.size);
  });
}

MemoryUse Device::use(Home home) const {
  const std::lock_guard lock(budget_->mutex);
  return budget_->of(home);
}

std::unique_ptr<Stream> Device::open_stream(std::string name) {
  return do_open_stream(std::move(name));
}

}  // namespace headrace
