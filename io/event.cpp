#include "io/event.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "io/check.h"
#include "io/event_source.h"

namespace headrace {
namespace {

struct Waiter {
  std::shared_ptr<Inbox> inbox;
  std::uint64_t token = 0;
};

// Few wait for most moments: the first ones cost no allocation.
class Waiters {
 public:
  void add(Waiter waiter) {
    if (count_ < few_.size())
      few_[count_++] = std::move(waiter);
    else
      more_.push_back(std::move(waiter));
  }
  void post() const {
    for (std::size_t i = 0; i < count_; ++i) few_[i].inbox->post(few_[i].token);
    for (const Waiter& waiter : more_) waiter.inbox->post(waiter.token);
  }

 private:
  std::array<Waiter, 2> few_;
  std::size_t count_ = 0;
  std::vector<Waiter> more_;
};

}  // namespace

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
    waiters_.add({inbox, token});
    return true;
  }

  void complete(Status how) {
    Waiters waiters;
    {
      const std::lock_guard lock(mutex_);
      HEADRACE_CHECK(!done());
      status_ = std::move(how);
      waiters = std::exchange(waiters_, {});
      done_.store(true, std::memory_order_release);
    }
    waiters.post();
  }

 private:
  const std::shared_ptr<const std::string> queue_;
  std::mutex mutex_;
  Waiters waiters_;  // guarded by mutex_
  Status status_;    // written once, before done_
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
    if (std::exchange(asleep_, false)) HEADRACE_CHECK(eventfd_write(wake_fd_, 1) == 0);
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
  asleep_ = false;
  tokens.swap(tokens_);
}

bool Inbox::wake_me() {
  const std::lock_guard lock(mutex_);
  asleep_ = wake_fd_ >= 0 && tokens_.empty();
  return tokens_.empty();
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
  event.few_.front() = {moment_, false};
  return event;
}

void EventSource::complete(Status how) const { moment_->complete(std::move(how)); }

Event Event::failed(Status why) {
  HEADRACE_CHECK(!why.ok());
  const EventSource source(std::make_shared<const std::string>());
  source.complete(std::move(why));
  return source.event();
}

std::size_t Event::size() const noexcept {
  if (more_) return few_.size() + more_->size();
  return static_cast<std::size_t>(
      std::ranges::count_if(few_, [](const Leaf& leaf) { return leaf.moment != nullptr; }));
}

const Event::Leaf& Event::leaf(std::size_t i) const noexcept {
  return i < few_.size() ? few_[i] : (*more_)[i - few_.size()];
}

// Operations that are over and have nothing to report are left out: a chain of steps stays short.
Event Event::join(std::span<const Event> events, bool over) {
  Event joined;
  std::size_t few = 0;
  std::vector<Leaf> more;
  for (const Event& event : events) {
    const std::size_t size = event.size();
    for (std::size_t i = 0; i < size; ++i) {
      const Leaf& leaf = event.leaf(i);
      if (leaf.moment->done() && (leaf.over || leaf.moment->status().ok())) continue;
      const Leaf kept{leaf.moment, leaf.over || over};
      if (few < joined.few_.size())
        joined.few_[few++] = kept;
      else
        more.push_back(kept);
    }
  }
  if (!more.empty()) joined.more_ = std::make_shared<const std::vector<Leaf>>(std::move(more));
  return joined;
}

Event Event::all(std::span<const Event> events) { return join(events, false); }

Event Event::all(std::initializer_list<Event> events) {
  return all(std::span(events.begin(), events.size()));
}

Event Event::over() const { return join({this, 1}, true); }

bool Event::done() const noexcept {
  const std::size_t count = size();
  for (std::size_t i = 0; i < count; ++i)
    if (!leaf(i).moment->done()) return false;
  return true;
}

Status Event::status() const {
  const std::size_t count = size();
  for (std::size_t i = 0; i < count; ++i) {
    const Moment& moment = *leaf(i).moment;
    HEADRACE_CHECK(moment.done());
    if (!leaf(i).over && !moment.status().ok()) return moment.status();
  }
  return {};
}

std::size_t Event::notify(const std::shared_ptr<Inbox>& inbox, std::uint64_t token) const {
  const std::size_t count = size();
  std::size_t open = 0;
  for (std::size_t i = 0; i < count; ++i) open += leaf(i).moment->notify(inbox, token) ? 1 : 0;
  return open;
}

std::string Event::waits_for() const {
  const std::size_t count = size();
  for (std::size_t i = 0; i < count; ++i)
    if (!leaf(i).moment->done()) return leaf(i).moment->queue();
  return {};
}

}  // namespace headrace
