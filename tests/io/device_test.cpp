#include "io/device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "io/host_memory.h"
#include "io/platform.h"

namespace headrace {
namespace {

constexpr std::uint64_t kThrottle = 1'000'000'000;

constexpr std::uint64_t kBudget = 64 * kMiB;

// A device, and a way to wait for its events: blocking where lanes have threads, stepping them in
// virtual time where they have none.
class Bench {
 public:
  enum class Kind { host, throttled, simulated };

  explicit Bench(Kind kind, HostDeviceOptions options = {}) : kind_(kind) {
    if (kind == Kind::simulated) {
      SimulationOptions simulation;
      simulation.host_bytes = kBudget;
      simulation.device_bytes = kBudget;
      platform_ = Platform::simulate(simulation);
      return;
    }
    options.device_bytes = kBudget;
    options.host_bytes = kBudget;
    if (kind == Kind::throttled) {
      options.copy_bytes_per_second = kThrottle;
      options.make_lane = [this](LaneOptions lane) { return manual_lane(std::move(lane)); };
    }
    device_ = Device::open_host(std::move(options));
  }

  Device& device() { return platform_ ? platform_->device() : *device_; }
  Clock& clock() { return clock_; }

  Status wait(const Event& event) {
    if (platform_) return platform_->wait(event, kForever);
    if (kind_ == Kind::throttled) {
      while (!event.done()) step();
      return event.status();
    }
    const auto inbox = std::make_shared<Inbox>();
    std::size_t open = event.notify(inbox, 1);
    for (std::vector<std::uint64_t> tokens; open > 0; open -= tokens.size()) {
      inbox->wait_until(kForever);
      inbox->take(tokens);
    }
    return event.status();
  }

 private:
  std::unique_ptr<Lane> manual_lane(LaneOptions options) {
    options.clock = &clock_;
    options.on_gone = [this](const Lane& gone) { std::erase(lanes_, &gone); };
    std::unique_ptr<Lane> made = Lane::manual(std::move(options));
    lanes_.push_back(made.get());
    return made;
  }

  void step() {
    for (Lane* lane : lanes_)
      if (lane->can_start()) lane->start(false);
    Lane* const next = *std::ranges::min_element(lanes_, {}, &Lane::due);
    HEADRACE_CHECK(next->due() != kForever);
    clock_.advance_to(next->due());
    next->finish();
  }

  const Kind kind_;
  Clock clock_{Clock::Kind::simulated};
  std::vector<Lane*> lanes_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Platform> platform_;
};

std::vector<std::byte> random_bytes(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class DeviceContract : public testing::TestWithParam<Bench::Kind> {
 protected:
  Bench bench{GetParam()};
  Device& device = bench.device();
};

TEST_P(DeviceContract, BytesComeBackFromTheDevice) {
  const auto stream = device.open_stream("copy");
  for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, 3 * kMiB + 5}) {
    Memory up = device.allocate(Home::device, size).value();
    Memory other = device.allocate(Home::device, size).value();
    Memory down = device.allocate(Home::host, size).value();
    const std::vector<std::byte> sent = random_bytes(size, 7);
    const Event raised = stream->copy(up.view(), ConstBytes(sent));
    const Event moved = stream->copy(other.view(), up.view(), raised);
    const Event lowered = stream->copy(down.view(), other.view(), moved);
    ASSERT_TRUE(bench.wait(lowered).ok());
    EXPECT_TRUE(std::ranges::equal(down.view().bytes(), sent));
  }
}

TEST_P(DeviceContract, PartsAreCopiedWhereTheyBelong) {
  const auto stream = device.open_stream("copy");
  Memory up = device.allocate(Home::device, 8192).value();
  const std::vector<std::byte> sent = random_bytes(1000, 3);
  std::vector<std::byte> all(8192);
  const Event raised = stream->copy(up.view().sub(5000, 1000), ConstBytes(sent));
  ASSERT_TRUE(bench.wait(stream->copy(Bytes(all), up.view(), raised)).ok());
  EXPECT_TRUE(std::ranges::equal(Bytes(all).subspan(5000, 1000), sent));
  EXPECT_EQ(std::ranges::count(all, std::byte{0}), 7192 + std::ranges::count(sent, std::byte{0}));
}

TEST_P(DeviceContract, MemoryIsZeroedAndAligned) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{65536}, 2 * kMiB, 2 * kMiB + 1}) {
    const Memory memory = device.allocate(Home::host, size).value();
    EXPECT_TRUE(
        std::ranges::all_of(memory.view().bytes(), [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.view().data) % page_alignment(size), 0u);
  }
  EXPECT_EQ(page_alignment(1), 4096u);
  EXPECT_EQ(page_alignment(65536), 65536u);
  EXPECT_EQ(page_alignment(5 * kMiB), 2 * kMiB);
}

TEST_P(DeviceContract, SizesMustBeEqual) {
  const auto stream = device.open_stream("copy");
  const auto busy = device.open_stream("busy");
  const Event before = busy->occupy(Nanoseconds(1000), "kernel");
  std::vector<std::byte> a(3), b(4);
  const Event copied = stream->copy(Bytes(a), ConstBytes(b), before);
  EXPECT_EQ(bench.wait(copied).code(), Code::invalid);
  EXPECT_TRUE(before.done());  // a refused copy too is over only after what it follows
}

TEST_P(DeviceContract, ZeroBytesAreALegalCopyInOrder) {
  const auto stream = device.open_stream("copy");
  EXPECT_TRUE(bench.wait(stream->copy(MemView(), ConstMemView())).ok());
  const Event failed = Event::failed(Status(Code::io, "before"));
  EXPECT_EQ(bench.wait(stream->copy(MemView(), ConstMemView(), failed)).code(), Code::io);
  EXPECT_EQ(device.allocate(Home::device, 0).value().size(), 0u);
}

TEST_P(DeviceContract, ACopyAfterAFailureDoesNotRun) {
  const auto stream = device.open_stream("copy");
  std::vector<std::byte> to(8), from(8, std::byte{1});
  const Event copied =
      stream->copy(Bytes(to), ConstBytes(from), Event::failed(Status(Code::corrupt, "bad")));
  EXPECT_EQ(bench.wait(copied).code(), Code::corrupt);
  EXPECT_EQ(to[0], std::byte{0});
}

TEST_P(DeviceContract, LaunchesRunInOrderWithCopies) {
  const auto stream = device.open_stream("compute");
  std::vector<std::byte> a(1), b(1), c(1);
  const Event first = stream->launch([&a](NativeStream native) {
    a[0] = std::byte{9};
    return native == nullptr ? Status() : Status(Code::device, "a native stream on a host device");
  });
  const Event second = stream->copy(Bytes(b), ConstBytes(a));
  const Event last = stream->copy(Bytes(c), ConstBytes(b));
  ASSERT_TRUE(bench.wait(last).ok());
  EXPECT_TRUE(first.done() && second.done());
  EXPECT_EQ(c[0], std::byte{9});
  EXPECT_EQ(stream->usage().operations, 3u);
}

TEST_P(DeviceContract, BudgetsRefuseWithTheSumAndTakeBack) {
  for (const Home home : {Home::host, Home::device}) {
    Memory first = device.allocate(home, 48 * kMiB).value();
    const Status why = device.allocate(home, 17 * kMiB).status();
    EXPECT_EQ(why.code(), Code::out_of_memory);
    for (const char* part : {"17.8 MB asked", "50.3 MB of 67.1 MB used", "1.05 MB missing"})
      EXPECT_NE(why.message().find(part), std::string::npos) << why.message();
    EXPECT_EQ(device.use(home).used, 48 * kMiB);
    EXPECT_TRUE(device.allocate(home, 16 * kMiB).ok());
    first = Memory();
    EXPECT_EQ(device.use(home).used, 0u);
    EXPECT_EQ(device.use(home).peak, 64 * kMiB);
    EXPECT_TRUE(device.allocate(home, 64 * kMiB).ok());
  }
  EXPECT_EQ(device.allocate(Home::host, SIZE_MAX).status().code(), Code::out_of_memory);
}

TEST_P(DeviceContract, CancelledWorkDoesNotRun) {
  const auto gate = device.open_stream("gate");
  const auto stream = device.open_stream("copy");
  const Event held = gate->occupy(Nanoseconds(1000), "kernel");
  std::vector<std::byte> to(8), from(8, std::byte{1});
  const Event copied = stream->copy(Bytes(to), ConstBytes(from), held);
  const Event next = stream->copy(Bytes(to), ConstBytes(from), copied.over());
  stream->cancel();
  const Status how = bench.wait(next);
  EXPECT_TRUE(how.ok() || how.code() == Code::cancelled);  // it may have run before, with threads
  if (GetParam() != Bench::Kind::host) {
    EXPECT_EQ(how.code(), Code::cancelled);
    EXPECT_EQ(to[0], std::byte{0});
  }
}

TEST_P(DeviceContract, AStreamThatGoesCancelsWhatIsQueued) {
  const auto gate = device.open_stream("gate");
  auto stream = device.open_stream("copy");
  std::vector<std::byte> to(8), from(8, std::byte{1});
  const Event held = gate->occupy(std::chrono::milliseconds(20), "kernel");
  const Event copied = stream->copy(Bytes(to), ConstBytes(from), held);
  stream.reset();
  EXPECT_TRUE(copied.done());
  if (GetParam() != Bench::Kind::host) {
    EXPECT_EQ(copied.status().code(), Code::cancelled);
  }
  ASSERT_TRUE(bench.wait(held).ok());
}

std::string kind_name(const testing::TestParamInfo<Bench::Kind>& info) {
  constexpr const char* kNames[] = {"host", "throttled", "simulated"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract,
                         testing::Values(Bench::Kind::host, Bench::Kind::throttled,
                                         Bench::Kind::simulated),
                         kind_name);

TEST(HostDevice, ThrottledCopiesTakeTheirTime) {
  Bench bench(Bench::Kind::throttled);
  const auto up = bench.device().open_stream("up");
  const auto down = bench.device().open_stream("down");
  std::vector<std::byte> a(1'000'000), b(1'000'000), c(1'000'000);
  const Event one = up->copy(Bytes(b), ConstBytes(a));
  const Event two = up->copy(Bytes(b), ConstBytes(a), one);
  const Event beside = down->copy(Bytes(c), ConstBytes(a));
  ASSERT_TRUE(bench.wait(Event::all({two, beside})).ok());
  EXPECT_EQ(bench.clock().now(), std::chrono::milliseconds(2));
  const Event busy = up->occupy(std::chrono::milliseconds(5), "kernel");
  ASSERT_TRUE(bench.wait(busy).ok());
  EXPECT_EQ(bench.clock().now(), std::chrono::milliseconds(7));
  EXPECT_EQ(up->usage().written_bytes, 2'000'000u);
}

// The kernel too follows addresses: it refuses the ones that fault.
bool readable(const std::byte* data) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool read = write(ends[1], data, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return read;
}

TEST(HostDevice, HostCodeThatFollowsADeviceAddressFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Bench bench(Bench::Kind::host);
  const Memory host = bench.device().allocate(Home::host, 3 * kMiB).value();
  const Memory hidden = bench.device().allocate(Home::device, 3 * kMiB).value();
  EXPECT_TRUE(readable(host.view().data));
  EXPECT_FALSE(readable(hidden.view().data));
  EXPECT_FALSE(readable(hidden.view().data + 3 * kMiB - 1));
  volatile std::byte* const address = hidden.view().data;
  EXPECT_DEATH(*address = std::byte{1}, "");
  EXPECT_DEATH(bench.device().use(static_cast<Home>(std::to_integer<int>(*address) % 1)), "");
}

TEST(HostDevice, FreedOrForeignDeviceMemoryIsRefused) {
  Bench bench(Bench::Kind::host);
  Bench other(Bench::Kind::host);
  const auto stream = bench.device().open_stream("copy");
  std::vector<std::byte> bytes(16);
  const Memory foreign = other.device().allocate(Home::device, 16).value();
  EXPECT_EQ(bench.wait(stream->copy(Bytes(bytes), foreign.view())).code(), Code::invalid);
  Memory gone = bench.device().allocate(Home::device, 16).value();
  const MemView view = gone.view();
  gone = Memory();
  EXPECT_EQ(bench.wait(stream->copy(view, ConstBytes(bytes))).code(), Code::invalid);
}

TEST(HostDevice, AbandonedMemoryStaysThereAndCounted) {
  Bench bench(Bench::Kind::host);
  MemView view;
  {
    Memory memory = bench.device().allocate(Home::host, 8192).value();
    view = memory.view();
    memory.abandon();
  }
  view.data[0] = std::byte{1};
  EXPECT_EQ(bench.device().use(Home::host).used, 8192u);
  unmap_pages(view.bytes());
}

std::uint64_t resident_bytes() {
  std::uint64_t total = 0, resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  const int read = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * kPageBytes : 0;
}

TEST(HostDevice, MemoryIsTouchedWhenAllocated) {
  Bench bench(Bench::Kind::host);
  const std::uint64_t before = resident_bytes();
  const Memory memory = bench.device().allocate(Home::host, 32 * kMiB).value();
  EXPECT_GE(resident_bytes() + kMiB, before + 32 * kMiB);
}

// 256 MiB and more is touched by several threads: every page is there, and only those.
TEST(HostDevice, LargeMemoryIsTouchedByAllParts) {
  const std::uint64_t before = resident_bytes();
  const Bytes pages = map_pages(256 * kMiB + 12345, -1).value();
  const std::uint64_t grown = resident_bytes() - before;
  EXPECT_GE(grown + kMiB, 256 * kMiB);
  EXPECT_LE(grown, 264 * kMiB);
  unmap_pages(pages);
}

// One small page in it, and io_uring registers them all one by one.
TEST(HostDevice, MemoryThatIsNotAMultipleOfAHugePageHasNoTailOfSmallOnes) {
  const Bytes even = map_pages(128 * kMiB, -1).value();
  const double granted = huge_page_share(even);
  unmap_pages(even);
  if (granted < 1) GTEST_SKIP() << "huge pages are not granted here";
  const Bytes odd = map_pages(129 * kMiB + 12345, -1).value();
  EXPECT_EQ(huge_page_share(odd), 1);
  unmap_pages(odd);
}

TEST(HostDevice, SaysOnceWhenHugePagesAreNotGranted) {
  std::vector<std::string> said;
  HostDeviceOptions options;
  options.on_message = [&said](std::string_view message) { said.emplace_back(message); };
  Bench bench(Bench::Kind::host, std::move(options));
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  const Memory one = bench.device().allocate(Home::host, 16 * kMiB).value();
  const Memory two = bench.device().allocate(Home::host, 16 * kMiB).value();
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("0 % of 16.8 MB"), std::string::npos) << said[0];
}

TEST(HostDevice, ANodeThatIsNotThereIsRefused) {
  Bench bench(Bench::Kind::host);
  EXPECT_TRUE(bench.device().allocate(Home::host, 8192, 0).ok());
  for (const int node : {700, 100000})
    EXPECT_EQ(bench.device().allocate(Home::host, 8192, node).status().code(), Code::invalid);
  EXPECT_EQ(bench.device().use(Home::host).used, 0u);
}

TEST(HostDevice, DescribesItself) {
  EXPECT_EQ(Bench(Bench::Kind::host).device().describe(), "host device, copies as fast as memory");
  EXPECT_EQ(Bench(Bench::Kind::throttled).device().describe(),
            "host device, copies at 1.00 GB/s a stream");
}

TEST(CudaDevice, IsUnavailableWhereItWasNotBuilt) {
  const auto device = Device::open_cuda(0);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().code(), Code::unavailable);
}

}  // namespace
}  // namespace headrace
