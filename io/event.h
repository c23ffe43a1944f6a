// Event: a moment at which some work is over, and how it ended.
//
// Every asynchronous operation takes the Event it must follow and returns the Event of its own
// completion. An Event is data: copyable, safe to use from any thread, default-constructed means
// "over, and well". It fires only when nothing can touch the operation's memory any more.
//
// Contents and memory are two questions: using contents waits for the event itself; reusing memory
// waits for `over()`, the same moment, always well.
//
// Only a queue makes an Event (io/event_source.h). Completing one posts tokens to the inboxes of
// the queues that wait for it, and runs no one's code. Blocking waits are Platform::wait.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "io/clock.h"
#include "io/status.h"

namespace headrace {

// Where completions arrive: one per queue or waiting thread. Unbounded; posting never blocks.
class Inbox {
 public:
  // `wake_fd`: an eventfd by which the owner is woken, or -1.
  explicit Inbox(int wake_fd = -1) : wake_fd_(wake_fd) {}

  void post(std::uint64_t token);
  // The owner is going away: what arrives from now on is dropped.
  void close();
  // Everything that has arrived, in order. Never blocks.
  void take(std::vector<std::uint64_t>& tokens);
  // Before the owner sleeps on wake_fd: the next post writes to it, once. False, and it must not
  // sleep, when something has arrived. An owner that is awake is spared the wake.
  bool wake_me();
  bool empty() const;
  // Blocks the owner until something has arrived (true) or the real-clock deadline has passed.
  bool wait_until(Nanoseconds deadline);

 private:
  const int wake_fd_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::uint64_t> tokens_;  // guarded by mutex_
  bool asleep_ = false;                // guarded by mutex_; wake_fd is to be written to
  bool closed_ = false;                // guarded by mutex_
};

class Moment;  // one operation's end; shared by its queue and all Events that name it

class [[nodiscard]] Event {
 public:
  Event() noexcept = default;
  static Event failed(Status why);
  // Over when the last one is over; the failure it reports is the first in list order.
  static Event all(std::span<const Event> events);
  static Event all(std::initializer_list<Event> events);

  Event over() const;
  bool done() const noexcept;
  // How it ended. Only once done.
  Status status() const;

  // Posts `token` to `inbox` once for each operation that is still open, when it ends; returns how
  // many those are. For queues.
  std::size_t notify(const std::shared_ptr<Inbox>& inbox, std::uint64_t token) const;
  // The name of the queue that owns the first open operation ("" when done). For reports.
  std::string waits_for() const;

 private:
  friend class EventSource;
  struct Leaf {
    std::shared_ptr<Moment> moment;
    bool over = false;
  };
  static Event join(std::span<const Event> events, bool over);
  std::size_t size() const noexcept;
  const Leaf& leaf(std::size_t i) const noexcept;

  // The first ones lie here, as most events have no more and none of them is to cost an allocation;
  // the others are shared by all copies, as what follows many is often many itself.
  std::array<Leaf, 2> few_;                        // in order; one without a moment is not there
  std::shared_ptr<const std::vector<Leaf>> more_;  // null: none
};

}  // namespace headrace
