// What a real kernel may do to a queue: signals without end, a ring that is far too small, a file
// that is cut, operations that are missing; and what it is asked to keep from others.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "io/device.h"
#include "io/platform.h"
#include "tests/io/engine_kinds.h"
#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

std::atomic<std::uint64_t> signals_seen{0};

// Signals every other thread of the process, again and again, while it lives.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction action {};
    action.sa_handler = [](int) { signals_seen.fetch_add(1, std::memory_order_relaxed); };
    ::sigaction(SIGUSR1, &action, nullptr);  // without SA_RESTART: calls end with EINTR
    thread_ = std::thread([this] {
      while (!over_) strike();
    });
  }
  ~SignalStorm() {
    over_ = true;
    thread_.join();
    ::signal(SIGUSR1, SIG_IGN);  // one may still be on its way
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

 private:
  static void strike() {
    const long self = ::syscall(SYS_gettid);
    for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task")) {
      const long thread = std::stol(task.path().filename());
      if (thread != self) ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR1);
    }
  }
  std::atomic<bool> over_{false};
  std::thread thread_;
};

Status wait_for(const Event& event) {
  const auto inbox = std::make_shared<Inbox>();
  std::vector<std::uint64_t> tokens;
  for (std::size_t open = event.notify(inbox, 0); open > 0; open -= tokens.size()) {
    if (!inbox->wait_until(Clock().now() + seconds(100))) return Status(Code::timeout, "100 s");
    inbox->take(tokens);
  }
  return event.status();
}

class RealFaults : public testing::TestWithParam<std::string> {
 protected:
  void open(IoQueueOptions options, unsigned entries = 256) {
    std::unique_ptr<IoEngine> engine = posix_engine({.threads = 2});
    if (GetParam() == "uring") {
      auto made = uring_engine({.entries = entries});
      if (!made.ok()) GTEST_SKIP() << made.status().to_string();
      engine = std::move(made).value();
    }
    queue = IoQueue::open(std::move(engine), std::move(options)).value();
  }
  File scratch(std::uint64_t size, bool direct) {
    return queue->open_file({.path = folder.path(), .size = size, .direct = direct}).value();
  }

  const TemporaryFolder folder;
  std::unique_ptr<IoQueue> queue;
};

TEST_P(RealFaults, SignalsWithoutEndChangeNothing) {
  open({.chunk_bytes = 64 * kKiB});
  if (!queue) return;
  constexpr std::size_t kSize = 4 * kMiB;
  const File file = scratch(kSize, true);
  const AlignedBytes out(kSize), back(kSize);
  signals_seen = 0;
  const SignalStorm storm;
  for (std::uint64_t round = 0; round < 10 || (signals_seen < 1000 && round < 1000); ++round) {
    out.fill(round);
    const Event stored = queue->write(file, 0, out.span());
    const Status how = wait_for(queue->read(file, 0, back.span(), queue->sync(file, stored)));
    ASSERT_TRUE(how.ok()) << how.to_string();
    ASSERT_TRUE(same(out.span(), back.span())) << round;
  }
  EXPECT_GE(signals_seen, 1000u);
}

// Each thread has many under way, each into its own bytes.
TEST_P(RealFaults, ARingOfFourEntriesServesAHundredThousandRequests) {
  constexpr std::size_t kThreads = 4, kRequests = 25'000, kBlock = 4096, kBlocks = 64;
  open({}, 4);
  if (!queue) return;
  const File file = scratch(kThreads * kBlocks * kBlock, false);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const AlignedBytes out(kBlocks * kBlock), back(kBlocks * kBlock);
      out.fill(t);
      std::vector<Event> last(kBlocks);
      for (std::size_t i = 0; i < kRequests; ++i) {
        const std::size_t block = i % kBlocks, at = block * kBlock;
        const std::uint64_t place = (t * kBlocks + block) * kBlock;
        last[block] = i / kBlocks % 4 == 0
                          ? queue->write(file, place, out.span().subspan(at, kBlock), last[block])
                          : queue->read(file, place, back.span().subspan(at, kBlock), last[block]);
        if (i % 1000 != 999) continue;
        EXPECT_TRUE(wait_for(Event::all(last)).ok());
      }
      EXPECT_TRUE(wait_for(Event::all(last)).ok());
      EXPECT_TRUE(same(out.span(), back.span()));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(queue->usage().operations, kThreads * kRequests);
  EXPECT_EQ(queue->usage().failed, 0u);
}

// A direct read of it gives a part of a block, and no more however often it is asked.
TEST_P(RealFaults, AFileCutInTheMiddleOfABlockSaysWhereItEnds) {
  open({});
  if (!queue) return;
  const File file =
      queue->open_file({.path = folder.path(), .size = kMiB, .alignment = 4096}).value();
  const AlignedBytes bytes(kMiB);
  ASSERT_TRUE(wait_for(queue->write(file, 0, bytes.span())).ok());
  ASSERT_EQ(::ftruncate(file.info().handle, 500'001), 0);
  const Status how = wait_for(queue->read(file, 0, bytes.span()));
  EXPECT_EQ(how.code(), Code::corrupt) << how.to_string();
  const std::string text = how.to_string();
  EXPECT_NE(text.find("scratch file in " + folder.path().string()), std::string::npos) << text;
  EXPECT_NE(text.find("ends at 500001, 548575 bytes before"), std::string::npos) << text;
  EXPECT_NE(text.find("truncated"), std::string::npos) << text;
  EXPECT_TRUE(wait_for(queue->read(file, 0, bytes.span().first(400 * kKiB))).ok());
}

INSTANTIATE_TEST_SUITE_P(Engines, RealFaults, testing::Values("posix", "uring"),
                         [](const auto& spec) { return spec.param; });

TEST(UringOpcodes, EachIsNeededAndNamed) {
  if (const auto made = uring_engine(); !made.ok()) GTEST_SKIP() << made.status().to_string();
  for (const int opcode : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READ_FIXED,
                           IORING_OP_WRITE_FIXED, IORING_OP_FSYNC, IORING_OP_POLL_ADD}) {
    const Status how = uring_engine({.without = opcode}).status();
    EXPECT_EQ(how.code(), Code::unavailable) << how.to_string();
    const std::string wanted = fmt::format("it lacks operation {}:", opcode);
    EXPECT_NE(how.message().find(wanted), std::string_view::npos) << how.to_string();
  }
}

// The descriptor of this process's ring; -1: none.
int ring_descriptor() {
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone) == "anon_inode:[io_uring]")
      return std::stoi(entry.path().filename());
  }
  return -1;
}

TEST(UringRestrictions, ARegistrationThatIsNotOursIsRefusedByTheRing) {
  auto made = uring_engine();
  if (!made.ok()) GTEST_SKIP() << made.status().to_string();
  const DrivenEngine engine(std::move(made).value());  // its ring is this thread's
  ASSERT_TRUE(engine.started().ok()) << engine.started().to_string();
  const int ring = ring_descriptor();
  ASSERT_GE(ring, 0);
  int eventfd = engine.wake_fd();
  const long how = ::syscall(SYS_io_uring_register, ring, IORING_REGISTER_EVENTFD, &eventfd, 1);
  EXPECT_EQ(how, -1);
  EXPECT_EQ(errno, EACCES) << "the kernel restricts no rings (before 5.10)?";
}

// The flags of the mappings that hold an address, or have a name: "VmFlags: rd wr ... dd ".
std::vector<std::string> flags_of(const void* address, const std::string& name) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::vector<std::string> flags;
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = (begin <= wanted && wanted < end) || line.find(name) != std::string::npos;
    if (inside && line.starts_with("VmFlags:")) flags.push_back(line + " ");
  }
  return flags;
}

TEST(TensorMemory, IsNeitherDumpedNorForked) {
  const auto device = Device::open_host();
  for (const Home home : {Home::host, Home::device}) {
    const Memory memory = device->allocate(home, 3 * kMiB).value();
    // Of the device's there are two: the addresses handed out, and where lanes find the bytes.
    const auto all = flags_of(memory.view().data, "memfd:headrace device");
    EXPECT_EQ(all.size(), home == Home::host ? 1u : 2u);
    for (const std::string& flags : all) {
      EXPECT_NE(flags.find(" dd "), std::string::npos) << flags;
      EXPECT_NE(flags.find(" dc "), std::string::npos) << flags;
    }
  }
}

}  // namespace
}  // namespace headrace
