// The host device: streams are lanes, device memory is memory that only lanes can reach.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "io/device.h"
#include "io/host_memory.h"

namespace headrace {
namespace {

// From here on a range is worth a look at the pages it got.
constexpr std::size_t kWorthHugePages = 16 * kMiB;
constexpr double kEnoughHugePages = 0.5;

// Where lanes find the bytes behind the addresses of device memory.
class HiddenMemory {
 public:
  void add(const HiddenPages& pages) {
    const std::lock_guard lock(mutex_);
    by_name_.emplace(pages.name, pages);
  }

  HiddenPages remove(const std::byte* name) {
    const std::lock_guard lock(mutex_);
    const auto found = by_name_.find(name);
    HEADRACE_CHECK(found != by_name_.end());
    const HiddenPages pages = found->second;
    by_name_.erase(found);
    return pages;
  }

  Result<std::byte*> find(const std::byte* name, std::size_t size) const {
    const std::lock_guard lock(mutex_);
    auto found = by_name_.upper_bound(name);
    if (found != by_name_.begin()) {
      const HiddenPages& pages = (--found)->second;
      const auto offset = static_cast<std::size_t>(name - pages.name);
      if (offset <= pages.bytes.size() && size <= pages.bytes.size() - offset)
        return pages.bytes.data() + offset;
    }
    return Status(Code::invalid, fmt::format("{} B at {} are not memory of this device", size,
                                             static_cast<const void*>(name)));
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, HiddenPages, std::less<>> by_name_;  // guarded by mutex_
};

const char* copy_name(Home to, Home from) {
  if (to == from) return "copy";
  return to == Home::device ? "copy up" : "copy down";
}

class HostStream final : public Stream {
 public:
  // `hidden` is null where device memory is ordinary.
  HostStream(std::unique_ptr<Lane> lane, const HiddenMemory* hidden)
      : hidden_(hidden), lane_(std::move(lane)) {}

  void cancel() override { static_cast<void>(lane_->cancel(Owner::nobody)); }
  Usage usage() const override { return lane_->usage(); }

 private:
  Event do_copy(MemView dst, ConstMemView src, Event after) override {
    return lane_->run({.body = [hidden = hidden_, dst, src] { return copy_now(hidden, dst, src); },
                       .bytes = dst.size,
                       .name = copy_name(dst.home, src.home)},
                      std::move(after));
  }

  Event do_launch(std::function<Status(NativeStream)> work, Nanoseconds at_least, const char* name,
                  Event after) override {
    return lane_->run({.body = [work = std::move(work)] { return work(nullptr); },
                       .at_least = at_least,
                       .name = name},
                      std::move(after));
  }

  static Status copy_now(const HiddenMemory* hidden, MemView dst, ConstMemView src) {
    if (dst.size == 0) return {};
    std::byte* to = dst.data;
    const std::byte* from = src.data;
    if (hidden != nullptr && dst.home == Home::device) {
      HEADRACE_ASSIGN(to, hidden->find(dst.data, dst.size));
    }
    if (hidden != nullptr && src.home == Home::device) {
      HEADRACE_ASSIGN(from, hidden->find(src.data, src.size));
    }
    std::memmove(to, from, dst.size);
    return {};
  }

  const HiddenMemory* const hidden_;
  const std::unique_ptr<Lane> lane_;
};

Result<MemView> plain_memory(Home home, std::size_t size) {
  const std::size_t alignment = page_alignment(size);
  void* const data = size > PTRDIFF_MAX - alignment
                         ? nullptr
                         : std::aligned_alloc(alignment, round_up(size, alignment));
  if (data == nullptr)
    return Status(Code::out_of_memory,
                  fmt::format("the machine did not give {}", format_bytes(size)));
  std::memset(data, 0, size);
  return MemView(static_cast<std::byte*>(data), size, home);
}

// What was abandoned goes with the device: when a simulated platform is gone, nothing is left that
// could still write there.
class PlainMemory {
 public:
  ~PlainMemory() {
    for (std::byte* const memory : live_) std::free(memory);
  }
  void add(std::byte* memory) {
    const std::lock_guard lock(mutex_);
    live_.insert(memory);
  }
  void remove(std::byte* memory) {
    const std::lock_guard lock(mutex_);
    HEADRACE_CHECK(live_.erase(memory) == 1);
    std::free(memory);
  }

 private:
  std::mutex mutex_;
  std::set<std::byte*> live_;  // guarded by mutex_
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(HostDeviceOptions options)
      : Device(options.device_bytes, options.host_bytes), options_(std::move(options)) {}

  std::string describe() const override {
    const std::uint64_t rate = options_.copy_bytes_per_second;
    return rate == 0 ? "host device, copies as fast as memory"
                     : fmt::format("host device, copies at {}/s a stream", format_bytes(rate));
  }

 private:
  Result<MemView> do_allocate(Home home, std::size_t size, int numa_node) override {
    if (options_.memory == HostMemoryKind::plain) {
      HEADRACE_ASSIGN(const MemView memory, plain_memory(home, size));
      plain_.add(memory.data);
      return memory;
    }
    if (options_.memory == HostMemoryKind::addresses) {
      HEADRACE_ASSIGN(const Bytes pages, reserve_pages(size));
      return MemView(pages.data(), pages.size(), home);
    }
    if (home == Home::host) {
      HEADRACE_ASSIGN(const Bytes pages, map_pages(size, numa_node));
      look_at_pages(pages);
      return MemView(pages);
    }
    HEADRACE_ASSIGN(const HiddenPages pages, map_hidden_pages(size));
    hidden_.add(pages);
    return MemView(pages.name, size, Home::device);
  }

  void do_free(MemView memory) override {
    if (options_.memory == HostMemoryKind::plain)
      plain_.remove(memory.data);
    else if (options_.memory == HostMemoryKind::addresses)
      unmap_pages(Bytes(memory.data, memory.size));
    else if (memory.home == Home::host)
      unmap_pages(memory.bytes());
    else
      unmap_hidden_pages(hidden_.remove(memory.data));
  }

  std::unique_ptr<Stream> do_open_stream(std::string name) override {
    const LaneFactory& make = options_.make_lane ? options_.make_lane : Lane::threaded;
    LaneOptions lane;
    lane.name = std::move(name);
    lane.bytes_per_second = options_.copy_bytes_per_second;
    return std::make_unique<HostStream>(
        make(std::move(lane)), options_.memory == HostMemoryKind::pages ? &hidden_ : nullptr);
  }

  void look_at_pages(ConstBytes pages) {
    if (!options_.on_message || pages.size() < kWorthHugePages) return;
    const double share = huge_page_share(pages);
    if (share >= kEnoughHugePages || warned_.exchange(true)) return;
    options_.on_message(fmt::format(
        "host memory got huge pages for only {:.0f} % of {}: transfers cost more CPU; see "
        "/sys/kernel/mm/transparent_hugepage/enabled (madvise is enough) and free memory",
        100 * share, format_bytes(pages.size())));
  }

  const HostDeviceOptions options_;
  HiddenMemory hidden_;
  PlainMemory plain_;
  std::atomic<bool> warned_{false};
};

}  // namespace

std::unique_ptr<Device> Device::open_host(HostDeviceOptions options) {
  return std::make_unique<HostDevice>(std::move(options));
}

}  // namespace headrace
