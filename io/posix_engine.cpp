// The thread engine: blocking pread, pwrite and fdatasync on a few workers, for machines and
// containers that refuse io_uring.
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "io/io_engine.h"
#include "io/wake.h"

namespace headrace {
namespace {

// Until one of the two is readable, or the time is over, or for nothing (a signal).
std::array<bool, 2> wait_for(int first, int second, Nanoseconds at_most) {
  std::array<pollfd, 2> watched{pollfd{first, POLLIN, 0}, pollfd{second, POLLIN, 0}};
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  const timespec limit{seconds.count(), (at_most - seconds).count()};
  if (::ppoll(watched.data(), 2, at_most == kForever ? nullptr : &limit, nullptr) <= 0) return {};
  return {watched[0].revents != 0, watched[1].revents != 0};
}

std::int64_t perform(const Transfer& transfer) {
  const auto offset = static_cast<off_t>(transfer.offset);
  ssize_t moved = 0;
  switch (transfer.direction) {
    case Direction::read:
      moved = ::pread(transfer.handle, transfer.data, transfer.size, offset);
      break;
    case Direction::write:
      moved = ::pwrite(transfer.handle, transfer.data, transfer.size, offset);
      break;
    case Direction::sync:
      moved = ::fdatasync(transfer.handle);
      break;
  }
  return moved < 0 ? -errno : moved;
}

class PosixEngine final : public IoEngine {
 public:
  explicit PosixEngine(PosixOptions options) : threads_(std::max(1, options.threads)) {}
  ~PosixEngine() override { HEADRACE_CHECK(workers_.empty()); }

  std::string describe() const override { return fmt::format("posix, {} threads", threads_); }
  Status start(int wake_fd) override;
  bool stop(Nanoseconds at_most) override;
  bool submit(const Transfer& transfer) override;
  void wait(std::vector<Completion>& completions, Nanoseconds at_most) override;

 private:
  void work(int number);
  void end_workers();
  bool take(std::vector<Completion>& completions);

  // constant after start
  const int threads_;
  int wake_fd_ = -1;
  int done_fd_ = -1;  // ours: readable when the first of several completions has come
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Transfer> queued_;        // guarded by mutex_
  std::vector<Completion> completed_;  // guarded by mutex_
  std::size_t in_flight_ = 0;          // guarded by mutex_; queued or at a worker
  bool closing_ = false;               // guarded by mutex_
  // touched only by the driver
  std::vector<std::thread> workers_;
};

Status PosixEngine::start(int wake_fd) {
  HEADRACE_CHECK(workers_.empty());
  wake_fd_ = wake_fd;
  done_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (done_fd_ < 0) {
    return Status(Code::unavailable, fmt::format("cannot make an eventfd ({}): raise the limit of "
                                                 "open files (ulimit -n)",
                                                 strerrorname_np(errno)));
  }
  try {
    for (int number = 0; number < threads_; ++number)
      workers_.emplace_back([this, number] { work(number); });
  } catch (const std::system_error& error) {
    end_workers();
    return Status(Code::unavailable,
                  fmt::format("cannot start {} I/O threads: {}: raise the limit of processes "
                              "(ulimit -u)",
                              threads_, error.what()));
  }
  return {};
}

bool PosixEngine::stop(Nanoseconds at_most) {
  if (workers_.empty()) return true;
  std::unique_lock lock(mutex_);
  const auto idle = [this] { return in_flight_ == 0; };
  const Nanoseconds deadline = deadline_after(Clock().now(), at_most);
  if (deadline == kForever) {
    changed_.wait(lock, idle);
  } else if (!changed_.wait_until(lock, std::chrono::steady_clock::time_point(deadline), idle)) {
    return false;
  }
  lock.unlock();
  end_workers();
  return true;
}

void PosixEngine::end_workers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  ::close(done_fd_);
}

bool PosixEngine::submit(const Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    queued_.push_back(transfer);
    ++in_flight_;
  }
  changed_.notify_one();
  return true;
}

bool PosixEngine::take(std::vector<Completion>& completions) {
  const std::lock_guard lock(mutex_);
  completions.insert(completions.end(), completed_.begin(), completed_.end());
  const bool some = !completed_.empty();
  completed_.clear();
  return some;
}

void PosixEngine::wait(std::vector<Completion>& completions, Nanoseconds at_most) {
  const bool some = take(completions);
  const auto [woken, done] = wait_for(wake_fd_, done_fd_, some ? Nanoseconds(0) : at_most);
  if (woken) drain_wake(wake_fd_);
  if (done) drain_wake(done_fd_);
  take(completions);
}

void PosixEngine::work(int number) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for the program's own threads
  pthread_setname_np(pthread_self(), fmt::format("posix-io-{}", number).c_str());
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !queued_.empty(); });
    if (queued_.empty()) return;
    const Transfer transfer = queued_.front();
    queued_.pop_front();
    lock.unlock();
    const std::int64_t result = perform(transfer);
    lock.lock();
    completed_.push_back({transfer.token, result});
    if (completed_.size() == 1) wake(done_fd_);
    if (--in_flight_ == 0) changed_.notify_all();
  }
}

}  // namespace

std::unique_ptr<IoEngine> posix_engine(PosixOptions options) {
  return std::make_unique<PosixEngine>(options);
}

}  // namespace headrace
