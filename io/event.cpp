#include "io/event.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>

#include "io/check.h"
#include "io/event_source.h"

namespace headrace {

class Moment {
 public:
  explicit Moment(std::shared_ptr<const std::string> queue) : queue_(std::move(queue)) {}

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // Only once done.
  const Status& status() const noexcept { return status_; }
  const std::string& queue() const noexcept { return *queue_; }

  // False when it is over already.
  bool notify(const std::shared_ptr<Inbox>& inbox, std::uint64_t token) {
    const std::lock_guard lock(mutex_);
    if (done()) return false;
    waiters_.push_back({inbox, token});
    return true;
  }

  void complete(Status how) {
    std::vector<Waiter> waiters;
    {
      const std::lock_guard lock(mutex_);
      HEADRACE_CHECK(!done());
      status_ = std::move(how);
      waiters.swap(waiters_);
      done_.store(true, std::memory_order_release);
    }
    for (const Waiter& waiter : waiters) waiter.inbox->post(waiter.token);
  }

 private:
  struct Waiter {
    std::shared_ptr<Inbox> inbox;
    std::uint64_t token;
  };
  const std::shared_ptr<const std::string> queue_;
  std::mutex mutex_;
  std::vector<Waiter> waiters_;  // guarded by mutex_
  Status status_;                // written once, before done_
  std::atomic<bool> done_{false};
};

void Inbox::post(std::uint64_t token) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    first = tokens_.empty();
    tokens_.push_back(token);
    // Under the mutex: after close() the owner may close the descriptor.
    if (first && wake_fd_ >= 0) HEADRACE_CHECK(eventfd_write(wake_fd_, 1) == 0);
  }
  if (first) arrived_.notify_one();
}

void Inbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  tokens_.clear();
}

void Inbox::take(std::vector<std::uint64_t>& tokens) {
  tokens.clear();
  const std::lock_guard lock(mutex_);
  tokens.swap(tokens_);
}

bool Inbox::empty() const {
  const std::lock_guard lock(mutex_);
  return tokens_.empty();
}

bool Inbox::wait_until(Nanoseconds deadline) {
  std::unique_lock lock(mutex_);
  const auto any = [this] { return !tokens_.empty(); };
  if (deadline == kForever) {
    arrived_.wait(lock, any);
    return true;
  }
  return arrived_.wait_until(lock, std::chrono::steady_clock::time_point(deadline), any);
}

EventSource::EventSource(std::shared_ptr<const std::string> queue)
    : moment_(std::make_shared<Moment>(std::move(queue))) {}

Event EventSource::event() const {
  Event event;
  event.leaves_.push_back({moment_, false});
  return event;
}

void EventSource::complete(Status how) const { moment_->complete(std::move(how)); }

Event Event::failed(Status why) {
  HEADRACE_CHECK(!why.ok());
  const EventSource source(std::make_shared<const std::string>());
  source.complete(std::move(why));
  return source.event();
}

// Operations that are over and have nothing to report are left out: a chain of steps stays short.
void Event::append(std::vector<Leaf>& leaves, const Event& event) {
  for (const Leaf& leaf : event.leaves_) {
    if (leaf.moment->done() && (leaf.over || leaf.moment->status().ok())) continue;
    leaves.push_back(leaf);
  }
}

Event Event::all(std::span<const Event> events) {
  Event joined;
  for (const Event& event : events) append(joined.leaves_, event);
  return joined;
}

Event Event::all(std::initializer_list<Event> events) {
  return all(std::span(events.begin(), events.size()));
}

Event Event::over() const {
  Event event;
  append(event.leaves_, *this);
  for (Leaf& leaf : event.leaves_) leaf.over = true;
  return event;
}

bool Event::done() const noexcept {
  return std::all_of(leaves_.begin(), leaves_.end(),
                     [](const Leaf& leaf) { return leaf.moment->done(); });
}

Status Event::status() const {
  for (const Leaf& leaf : leaves_) {
    HEADRACE_CHECK(leaf.moment->done());
    if (!leaf.over && !leaf.moment->status().ok()) return leaf.moment->status();
  }
  return {};
}

std::size_t Event::notify(const std::shared_ptr<Inbox>& inbox, std::uint64_t token) const {
  std::size_t open = 0;
  for (const Leaf& leaf : leaves_) open += leaf.moment->notify(inbox, token) ? 1 : 0;
  return open;
}

std::string Event::waits_for() const {
  for (const Leaf& leaf : leaves_)
    if (!leaf.moment->done()) return leaf.moment->queue();
  return {};
}

}  // namespace headrace
