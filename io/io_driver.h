// The driver of an IoQueue: the one thread (or the one that pumps) that calls the engine.
//
// Requests and calls arrive under a mutex, from any thread, and wake it by an eventfd, as do the
// completions of what requests follow; a request that is only to be parked wakes nobody. All the
// rest is touched by the driver alone.
#pragma once

#include <mutex>
#include <thread>

#include "io/io_schedule.h"
#include "io/io_snapshot.h"

namespace headrace {

class IoQueue::Driver {
 public:
  Driver(std::unique_ptr<IoEngine> engine, IoQueueOptions options, bool manual);
  ~Driver();
  Status start();

  Event queue(IoRequests one);
  Event queue_call(std::function<Status(IoEngine&)> call);
  void cancel(Owner owner);
  IoRequests new_request() const { return headrace::new_request(EventSource(name_)); }
  const std::shared_ptr<IoEngine>& engine() const noexcept { return engine_; }
  const std::string& name() const noexcept { return *name_; }
  Usage usage() const;
  std::string describe() const;

  bool can_pump() const;
  bool pump();
  Nanoseconds due() const { return engine_->due(); }

 private:
  // One of the two: a request, or what the driver is to do between two requests.
  struct Arrival {
    IoRequests one;  // or none
    std::function<void()> call;
  };
  Nanoseconds now() const { return options_.clock ? options_.clock->now() : Clock().now(); }
  Status start_engine();
  void run();
  void wake();
  void arrive(Arrival arrival);
  bool must_wait(IoRequest& request) noexcept;
  bool pass(Nanoseconds at_most);
  bool may_sleep();
  bool absorb();
  void receive(IoRequests one);
  void unpark(IoRequest& request);
  void ready(IoRequests one);
  void drop(std::optional<Owner> owner, const Status& why);
  bool send();
  void finish_some();
  bool looks_at(const IoRequest& request) const;
  bool accepted(IoRequest& request);
  void end(IoRequests one);
  void end_part(IoRequests one);
  void complete(IoRequests one);
  void end_all(IoRequests requests);
  void publish();
  void account(Usage& usage, Nanoseconds until) const;
  void close();
  void drain(Nanoseconds deadline, const Status& why);

  const IoQueueOptions options_;
  const bool manual_;
  const std::shared_ptr<const std::string> name_;
  const int wake_fd_;
  const std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<IoEngine> engine_;  // files keep it, too
  mutable std::mutex mutex_;
  std::vector<Arrival> arrivals_;  // guarded by mutex_
  bool pressing_ = false;          // guarded by mutex_; there is something to do for one of them
  bool asleep_ = false;            // guarded by mutex_; what is pressing wakes
  std::uint64_t next_id_ = 1;      // guarded by mutex_
  bool closing_ = false;           // guarded by mutex_
  Usage usage_;                    // guarded by mutex_
  IoSnapshot snapshot_;            // guarded by mutex_
  Nanoseconds accounted_to_{0};    // guarded by mutex_
  bool busy_ = false;              // guarded by mutex_; since accounted_to_
  std::string stalled_for_;        // guarded by mutex_; since accounted_to_; "": not stalled
  // touched only by the driver
  IoSchedule schedule_;
  IoRequests parked_;  // what they follow is open
  IoRequests parted_;  // of which the schedule has the parts
  std::vector<Completion> completions_;
  std::vector<Arrival> absorbed_;
  std::vector<std::uint64_t> tokens_;
  bool running_ = false;    // the engine was started
  bool abandoned_ = false;  // the kernel kept something
  std::thread thread_;
};

}  // namespace headrace
