// The io_uring engine: one ring, made by and used from the driver's thread alone.
//
// Flags, registered buffers, registered files and restrictions are each tried and not required;
// only a refused ring is an error. Whatever the kernel says of a transfer is handed out as it is.
#include <fmt/format.h>
#include <liburing.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "io/io_engine.h"
#include "io/wake.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_read_range(void* address, long size);
extern "C" void __tsan_write_range(void* address, long size);
#endif

namespace headrace {
namespace {

constexpr unsigned kBufferSlots = 4096;
constexpr unsigned kFileSlots = 256;
constexpr std::uint64_t kPollMark = ~std::uint64_t{0};

constexpr std::array kOpcodes = {IORING_OP_READ,        IORING_OP_WRITE, IORING_OP_READ_FIXED,
                                 IORING_OP_WRITE_FIXED, IORING_OP_FSYNC, IORING_OP_POLL_ADD};
constexpr std::array kRegistrations = {IORING_REGISTER_BUFFERS_UPDATE, IORING_REGISTER_FILES_UPDATE,
                                       IORING_UNREGISTER_BUFFERS, IORING_UNREGISTER_FILES};

// The best first; older kernels refuse flags that they do not know.
constexpr std::array<unsigned, 4> kFlagLadder = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
        IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP,
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_CLAMP,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_CLAMP, IORING_SETUP_CLAMP};

const char* cause_of(int error) {
  if (error == EPERM || error == EACCES)
    return "a container's profile or kernel.io_uring_disabled forbids it: allow io_uring_setup, "
           "_enter and _register, or use the posix engine";
  if (error == ENOSYS) return "this kernel or container has none: use the posix engine";
  if (error == ENOMEM)
    return "too little memory may be locked: raise ulimit -l, or use the posix engine";
  return "this kernel is too old for it, or refuses it: use the posix engine";
}

Status refused(int error, std::string_view call) {
  return Status(Code::unavailable,
                fmt::format("io_uring is refused: {}: {} ({}): {}", call, strerrordesc_np(error),
                            strerrorname_np(error), cause_of(error)));
}

// By system call, as liburing 2.3 declares these two and does not export them.
void restrict_ring(const io_uring& ring) {
  std::vector<io_uring_restriction> allowed;
  const auto allow = [&allowed](unsigned kind, unsigned value) {
    allowed.emplace_back();
    allowed.back().opcode = static_cast<__u16>(kind);
    allowed.back().sqe_op = static_cast<__u8>(value);  // a union of the three kinds
  };
  for (const auto opcode : kOpcodes) allow(IORING_RESTRICTION_SQE_OP, opcode);
  for (const auto call : kRegistrations) allow(IORING_RESTRICTION_REGISTER_OP, call);
  allow(IORING_RESTRICTION_SQE_FLAGS_ALLOWED, IOSQE_FIXED_FILE);
  ::syscall(SYS_io_uring_register, ring.ring_fd, IORING_REGISTER_RESTRICTIONS, allowed.data(),
            allowed.size());
}

Status check_opcodes(io_uring& ring, int without) {
  std::vector<io_uring_probe> probe(1 + 256 * sizeof(io_uring_probe_op) / sizeof(io_uring_probe));
  const int error = io_uring_register_probe(&ring, probe.data(), 256);
  if (error < 0) return refused(-error, "io_uring_register");
  for (const auto opcode : kOpcodes)
    if (opcode == without || io_uring_opcode_supported(probe.data(), opcode) == 0)
      return refused(EOPNOTSUPP, fmt::format("it lacks operation {}", static_cast<int>(opcode)));
  return {};
}

struct Granted {
  unsigned entries = 0;
  bool buffers = false;
  bool files = false;
};

Status set_up(io_uring& ring, const UringOptions& want, Granted& granted) {
  if ((ring.features & IORING_FEAT_EXT_ARG) == 0)
    return refused(EOPNOTSUPP, "waiting with a time limit needs Linux 5.11");
  HEADRACE_TRY(check_opcodes(ring, want.without));
  granted.entries = ring.sq.ring_entries;
  granted.buffers =
      want.register_buffers && io_uring_register_buffers_sparse(&ring, kBufferSlots) == 0;
  granted.files = io_uring_register_files_sparse(&ring, kFileSlots) == 0;
  restrict_ring(ring);
  if (::syscall(SYS_io_uring_register, ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) < 0)
    return refused(errno, "io_uring_register");
  const int error = io_uring_get_events(&ring);
  return error < 0 ? refused(-error, "io_uring_enter") : Status();
}

void free_ring(io_uring& ring, const Granted& granted) {
  // Explicitly: the kernel takes a ring apart later, and until then its locked memory counts.
  if (granted.buffers) io_uring_unregister_buffers(&ring);
  if (granted.files) io_uring_unregister_files(&ring);
  io_uring_queue_exit(&ring);
}

Status make_ring(const UringOptions& options, io_uring& ring, Granted& granted) {
  int error = -ENOSYS;
  for (const unsigned flags : kFlagLadder) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_R_DISABLED;  // until it is restricted
    error = io_uring_queue_init_params(options.entries, &ring, &params);
    if (error != -EINVAL) break;
  }
  if (error < 0) return refused(-error, "io_uring_setup");
  const Status how = set_up(ring, options, granted);
  if (!how.ok()) free_ring(ring, granted);
  return how;
}

class UringEngine final : public IoEngine {
 public:
  explicit UringEngine(UringOptions options) : options_(options) {}
  ~UringEngine() override { HEADRACE_CHECK(!running_); }

  std::string describe() const override;
  Status start(int wake_fd) override;
  bool stop(Nanoseconds at_most) override;
  bool submit(const Transfer& transfer) override;
  void wait(std::vector<Completion>& completions, Nanoseconds at_most) override;
  Status register_memory(Bytes memory) override;
  void unregister_memory(Bytes memory) override;
  void close_file(const OpenFile& file) override;

 private:
  struct Slot {
    Transfer transfer;
    std::atomic<std::uint64_t> turn{0};  // released at submission, acquired at completion
  };
  struct Buffer {
    std::byte* end;
    unsigned slot;
  };

  void prepare(io_uring_sqe& sqe, const Transfer& transfer) const;
  const Buffer* buffer_of(const Transfer& transfer) const;
  void set_file(io_uring_sqe& sqe, int handle);
  int set_buffer(unsigned slot, iovec memory);
  void close_files();
  void watch_wake();
  void enter(Nanoseconds at_most);
  void reap(std::vector<Completion>& completions);
  void finish(unsigned number, int result, std::vector<Completion>& completions);

  // constant after start
  const UringOptions options_;
  Granted granted_;
  int wake_fd_ = -1;
  // touched only by the driver
  io_uring ring_{};
  bool running_ = false, watching_ = false;  // watching_: a poll of wake_fd_ is in the ring
  std::vector<Slot> slots_;                  // as many as there are entries
  std::vector<unsigned> free_;               // indices of slots_
  std::map<std::byte*, Buffer> buffers_;     // registered ranges, by where they begin
  std::vector<unsigned> free_buffers_, free_files_;
  std::atomic<bool> has_buffers_{false};  // for describe()
  std::mutex files_mutex_;
  std::map<int, unsigned> files_;  // guarded by files_mutex_; registered, by descriptor
  std::vector<std::pair<int, unsigned>> closing_;  // guarded by files_mutex_; no longer in files_
};

std::string UringEngine::describe() const {
  return fmt::format("io_uring, {} entries{}{}", granted_.entries,
                     has_buffers_ ? ", registered buffers" : "",
                     granted_.files ? ", registered files" : "");
}

Status UringEngine::start(int wake_fd) {
  HEADRACE_CHECK(!running_);
  HEADRACE_TRY(make_ring(options_, ring_, granted_));
  wake_fd_ = wake_fd;
  slots_ = std::vector<Slot>(granted_.entries);
  for (unsigned k = granted_.entries; k-- > 0;) free_.push_back(k);
  for (unsigned k = kBufferSlots; k-- > 0 && granted_.buffers;) free_buffers_.push_back(k);
  for (unsigned k = kFileSlots; k-- > 0 && granted_.files;) free_files_.push_back(k);
  running_ = true;
  return {};
}

bool UringEngine::stop(Nanoseconds at_most) {
  if (!running_) return true;
  const Clock clock;
  const Nanoseconds deadline = deadline_after(clock.now(), at_most);
  std::vector<Completion> dropped;
  while (free_.size() < slots_.size()) {
    const Nanoseconds left = deadline == kForever ? kForever : deadline - clock.now();
    wait(dropped, std::max(left, Nanoseconds(0)));
    if (left <= Nanoseconds(0) && free_.size() < slots_.size()) return false;
  }
  free_ring(ring_, granted_);
  running_ = false;
  const std::lock_guard lock(files_mutex_);
  for (const auto& [file, slot] : std::exchange(closing_, {})) ::close(file);
  files_.clear();
  return true;
}

bool UringEngine::submit(const Transfer& transfer) {
  if (free_.empty() || io_uring_sq_space_left(&ring_) < 2) return false;  // one for watch_wake
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  Slot& slot = slots_[free_.back()];
  slot.transfer = transfer;
  prepare(*sqe, transfer);
  set_file(*sqe, transfer.handle);
  io_uring_sqe_set_data64(sqe, free_.back());
  slot.turn.fetch_add(1, std::memory_order_release);
  free_.pop_back();
  return true;
}

void UringEngine::prepare(io_uring_sqe& sqe, const Transfer& transfer) const {
  HEADRACE_CHECK(transfer.size <= kGiB);
  if (transfer.direction == Direction::sync)
    return io_uring_prep_fsync(&sqe, transfer.handle, IORING_FSYNC_DATASYNC);
  const Buffer* buffer = buffer_of(transfer);
  const bool reads = transfer.direction == Direction::read;
  const int plain = reads ? IORING_OP_READ : IORING_OP_WRITE;
  const int fixed = reads ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
  io_uring_prep_rw(buffer == nullptr ? plain : fixed, &sqe, transfer.handle, transfer.data,
                   static_cast<unsigned>(transfer.size), transfer.offset);
  if (buffer != nullptr) sqe.buf_index = static_cast<__u16>(buffer->slot);
}

const UringEngine::Buffer* UringEngine::buffer_of(const Transfer& transfer) const {
  const auto after = buffers_.upper_bound(transfer.data);
  if (after == buffers_.begin()) return nullptr;
  const Buffer& buffer = std::prev(after)->second;
  const bool inside = transfer.data < buffer.end &&
                      transfer.size <= static_cast<std::size_t>(buffer.end - transfer.data);
  return inside ? &buffer : nullptr;
}

// By its number in the ring's table, where it comes with its first transfer.
void UringEngine::set_file(io_uring_sqe& sqe, int handle) {
  const std::lock_guard lock(files_mutex_);
  auto known = files_.find(handle);
  if (known == files_.end()) {
    if (free_files_.empty() || handle < 0) return;
    const unsigned slot = free_files_.back();
    if (io_uring_register_files_update(&ring_, slot, &handle, 1) != 1) return;
    free_files_.pop_back();
    known = files_.emplace(handle, slot).first;
  }
  sqe.fd = static_cast<int>(known->second);
  sqe.flags |= IOSQE_FIXED_FILE;
}

void UringEngine::wait(std::vector<Completion>& completions, Nanoseconds at_most) {
  close_files();
  watch_wake();
  enter(at_most);
  reap(completions);
}

void UringEngine::watch_wake() {
  if (watching_) return;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  io_uring_prep_poll_add(sqe, wake_fd_, POLLIN);
  io_uring_sqe_set_data64(sqe, kPollMark);
  watching_ = true;
}

// A plain wait for one completion; a time limit only when there is one, since it costs CPU.
void UringEngine::enter(Nanoseconds at_most) {
  int result = 0;
  if (at_most == kForever) {
    result = io_uring_submit_and_wait(&ring_, 1);
  } else if (at_most <= Nanoseconds(0)) {
    result = io_uring_submit_and_get_events(&ring_);
  } else {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
    __kernel_timespec limit{seconds.count(), (at_most - seconds).count()};
    io_uring_cqe* first = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &limit, nullptr);
  }
  // Those that pass; what was not sent stays in the ring for the next time. Others are our bugs.
  constexpr std::array kPassing = {EINTR, ETIME, EAGAIN, EBUSY, ENOMEM};
  HEADRACE_CHECK(result >= 0 || std::ranges::find(kPassing, -result) != kPassing.end());
}

void UringEngine::reap(std::vector<Completion>& completions) {
  unsigned head = 0, count = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    ++count;
    if (cqe->user_data == kPollMark) {
      watching_ = false;
      drain_wake(wake_fd_);
    } else {
      finish(static_cast<unsigned>(cqe->user_data), cqe->res, completions);
    }
  }
  io_uring_cq_advance(&ring_, count);
}

void UringEngine::finish(unsigned number, int result, std::vector<Completion>& completions) {
  Slot& slot = slots_[number];
  slot.turn.load(std::memory_order_acquire);
#if defined(__SANITIZE_THREAD__)
  const long moved = std::max(result, 0);  // by the kernel, unseen
  if (slot.transfer.direction == Direction::read) __tsan_write_range(slot.transfer.data, moved);
  if (slot.transfer.direction == Direction::write) __tsan_read_range(slot.transfer.data, moved);
#endif
  completions.push_back({slot.transfer.token, result});
  free_.push_back(number);
}

// 0, or errno.
int UringEngine::set_buffer(unsigned slot, iovec memory) {
  const int updated = io_uring_register_buffers_update_tag(&ring_, slot, &memory, nullptr, 1);
  return updated == 1 ? 0 : std::max(1, -updated);
}

Status UringEngine::register_memory(Bytes memory) {
  if (!granted_.buffers)
    return Status(Code::unavailable, "io_uring: this kernel or these options register no buffers");
  for (std::size_t done = 0; done < memory.size();) {
    const std::size_t size = std::min<std::size_t>(memory.size() - done, kGiB);  // the largest
    std::byte* begin = memory.data() + done;
    const int error =
        free_buffers_.empty() ? ENOBUFS : set_buffer(free_buffers_.back(), {begin, size});
    if (error != 0) {
      unregister_memory(memory.first(done));
      return Status(Code::unavailable,
                    fmt::format("io_uring: {} not registered: {}: transfers cost more CPU; raise "
                                "ulimit -l to have it",
                                format_bytes(memory.size()), strerrorname_np(error)));
    }
    buffers_[begin] = {begin + size, free_buffers_.back()};
    free_buffers_.pop_back();
    done += size;
    has_buffers_ = true;
  }
  return {};
}

void UringEngine::unregister_memory(Bytes memory) {
  auto at = buffers_.lower_bound(memory.data());
  while (at != buffers_.end() && at->first < memory.data() + memory.size()) {
    if (set_buffer(at->second.slot, {nullptr, 0}) == 0) free_buffers_.push_back(at->second.slot);
    at = buffers_.erase(at);
  }
}

// A file in the ring's table is closed by the driver, so that no other file gets its number while
// the table still holds it. Its space and its lock are given back at once.
void UringEngine::close_file(const OpenFile& file) {
  const std::lock_guard lock(files_mutex_);
  const auto known = files_.find(file.handle);
  if (known == files_.end()) return IoEngine::close_file(file);
  let_go(file);
  closing_.emplace_back(*known);
  files_.erase(known);
  wake(wake_fd_);  // the lock is held: once stopped, files_ is empty and wake_fd_ may be closed
}

void UringEngine::close_files() {
  const std::lock_guard lock(files_mutex_);
  for (const auto& [file, slot] : std::exchange(closing_, {})) {
    const int none = -1;
    if (io_uring_register_files_update(&ring_, slot, &none, 1) == 1) free_files_.push_back(slot);
    ::close(file);
  }
}

}  // namespace

Result<std::unique_ptr<IoEngine>> uring_engine(UringOptions options) {
  io_uring ring{};
  Granted granted;
  HEADRACE_TRY(make_ring({2, false, options.without}, ring, granted));
  free_ring(ring, granted);
  return std::unique_ptr<IoEngine>(std::make_unique<UringEngine>(options));
}

}  // namespace headrace
