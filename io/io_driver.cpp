#include "io/io_driver.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <future>

#include "io/short_turns.h"

namespace headrace {
namespace {

// What the kernel may still touch, or complete, is kept until the process ends.
void quarantine(std::shared_ptr<const void> what) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(what));
}

const char* name_in_trace(const IoRequest& request) {
  if (request.tag.name != nullptr) return request.tag.name;
  return name_of(request.direction);
}

}  // namespace

IoQueue::Driver::Driver(std::unique_ptr<IoEngine> engine, IoQueueOptions options, bool manual)
    : options_(std::move(options)),
      manual_(manual),
      name_(std::make_shared<const std::string>(options_.name)),
      wake_fd_(manual ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      inbox_(std::make_shared<Inbox>(wake_fd_)),
      engine_(std::move(engine)),
      accounted_to_(now()),
      schedule_(options_) {
  usage_.name = *name_;
}

Status IoQueue::Driver::start() {
  if (manual_) return start_engine();
  if (wake_fd_ < 0) return Status(Code::io, "no eventfd: too many open files?");
  std::promise<Status> started;
  std::future<Status> how = started.get_future();
  thread_ = std::thread([this, started = std::move(started)]() mutable {
    pthread_setname_np(pthread_self(), name_->substr(0, 15).c_str());
    take_short_turns();
    if (options_.on_start) options_.on_start();
    Status status = start_engine();
    const bool well = status.ok();
    started.set_value(std::move(status));
    if (well) run();
  });
  return how.get();
}

Status IoQueue::Driver::start_engine() {
  HEADRACE_TRY(engine_->start(wake_fd_));
  running_ = true;
  const std::lock_guard lock(mutex_);
  snapshot_.engine = engine_->describe();
  return {};
}

IoQueue::Driver::~Driver() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  if (manual_ && running_) close();
  if (wake_fd_ >= 0 && !abandoned_) ::close(wake_fd_);
}

void IoQueue::Driver::wake() {
  if (wake_fd_ >= 0) HEADRACE_CHECK(eventfd_write(wake_fd_, 1) == 0);
}

void IoQueue::Driver::run() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) break;
    }
    pass(kForever);
  }
  close();
}

void IoQueue::Driver::arrive(Arrival arrival) {
  bool asleep = false;
  {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back(std::move(arrival));
    IoRequests& one = arrivals_.back().one;
    const bool waits = !one.empty() && must_wait(one.front());
    // One that must wait is seen to with the first thing that it follows: no wake is worth it, if
    // one that is parked is told of already.
    if (!waits || snapshot_.parked_front.id == 0) {
      pressing_ = true;
      asleep = std::exchange(asleep_, false);
    }
  }
  if (asleep) wake();
}

// Under the mutex: whoever takes a token of it finds it among the arrivals. A token is its address,
// so that an exception half way would be one too late.
bool IoQueue::Driver::must_wait(IoRequest& request) noexcept {
  request.id = next_id_++;
  request.open = request.after.notify(inbox_, std::bit_cast<std::uintptr_t>(&request));
  return request.open > 0;
}

Event IoQueue::Driver::queue(IoRequests one) {
  one.front().queued_at = now();
  const Event event = one.front().source.event();
  arrive({std::move(one), nullptr});
  return event;
}

Event IoQueue::Driver::queue_call(std::function<Status(IoEngine&)> call) {
  const EventSource source(name_);
  arrive({{}, [this, source, call = std::move(call)] { source.complete(call(*engine_)); }});
  return source.event();
}

void IoQueue::Driver::cancel(Owner owner) {
  arrive({{}, [this, owner] {
            drop(owner, Status(Code::cancelled, fmt::format("dropped from {}", *name_)));
          }});
}

// Everything that can be done now; then waits for the engine, if there is nothing more to do. To
// look at finished bytes takes a while, and those of many reads come at once: the engine is given
// what is to be sent before each.
bool IoQueue::Driver::pass(Nanoseconds at_most) {
  bool did = absorb();
  did |= send();
  did |= schedule_.any_ended();
  publish();
  completions_.clear();
  const bool sleeps = at_most > Nanoseconds(0) && !schedule_.any_ended() && may_sleep();
  engine_->wait(completions_, sleeps ? at_most : Nanoseconds(0));
  finish_some();
  for (const Completion& completion : completions_) schedule_.complete(completion);
  return did || !completions_.empty();
}

// False: there is something to do that has not been looked at. True: what presses from now on
// wakes.
bool IoQueue::Driver::may_sleep() {
  {
    const std::lock_guard lock(mutex_);
    if (pressing_) return false;
    asleep_ = true;
  }
  return inbox_->wake_me();
}

// Tokens first: those that are taken are of requests that have arrived.
bool IoQueue::Driver::absorb() {
  inbox_->take(tokens_);
  absorbed_.clear();
  {
    const std::lock_guard lock(mutex_);
    asleep_ = false;
    pressing_ = false;
    absorbed_.swap(arrivals_);
  }
  for (Arrival& arrival : absorbed_) {
    if (arrival.call)
      std::exchange(arrival.call, nullptr)();  // what it holds is let go
    else
      receive(std::move(arrival.one));
  }
  for (const std::uint64_t token : tokens_) unpark(*std::bit_cast<IoRequest*>(token));
  return !absorbed_.empty() || !tokens_.empty();
}

void IoQueue::Driver::receive(IoRequests one) {
  if (one.front().open == 0) return ready(std::move(one));
  parked_.splice(parked_.end(), one);
}

void IoQueue::Driver::unpark(IoRequest& request) {
  if (--request.open > 0) return;
  ready(take(parked_, request.self));
}

void IoQueue::Driver::ready(IoRequests one) {
  IoRequest& request = one.front();
  if (Status how = request.after.status(); !how.ok()) {
    request.failure = std::move(how);
    request.redone = true;  // it was never to be done at all
  }
  request.after = {};
  IoRequests parts = request.failure.ok() ? parts_of(request) : IoRequests();
  if (parts.empty()) return schedule_.add(std::move(one));
  parted_.splice(parted_.end(), one);
  while (!parts.empty()) schedule_.add(take(parts, parts.begin()));
}

// One that is parked keeps its place: what it follows may still use its memory.
void IoQueue::Driver::drop(std::optional<Owner> owner, const Status& why) {
  schedule_.drop(owner, why);
  for (IoRequest& request : parked_)
    if (!owner || request.tag.owner == *owner) request.failure = why;
}

bool IoQueue::Driver::send() {
  bool sent = false;
  const Nanoseconds time = now();
  while (const Transfer* transfer = schedule_.next(time)) {
    if (!engine_->submit(*transfer)) break;
    schedule_.sent();
    sent = true;
  }
  return sent;
}

// Up to the first whose bytes are looked at.
void IoQueue::Driver::finish_some() {
  for (bool looked = false; !looked && schedule_.any_ended();) {
    IoRequests one = schedule_.take_ended();
    looked = looks_at(one.front());
    if (accepted(one.front()))
      end(std::move(one));
    else
      schedule_.add(std::move(one));
  }
}

bool IoQueue::Driver::looks_at(const IoRequest& request) const {
  return request.failure.ok() && request.check() && !options_.dry;
}

// False: to be done once more.
bool IoQueue::Driver::accepted(IoRequest& request) {
  if (request.failure.code() == Code::io && request.tag.redo && !request.redone) {
    request.redone = true;
    request.failure = Status();
    return false;
  }
  if (!looks_at(request)) return true;
  const Status verdict = request.check()(request.at(), ConstBytes(request.data, request.size));
  if (verdict.ok()) return true;
  if (!std::exchange(request.read_again, true)) return false;
  request.failure = Status(
      Code::corrupt, fmt::format("{}, read twice: {}", request.describe(), verdict.message()));
  return true;
}

void IoQueue::Driver::end(IoRequests one) {
  IoRequest& request = one.front();
  {
    const std::lock_guard lock(mutex_);
    ++usage_.operations;
    usage_.failed += request.failure.ok() ? 0 : 1;
    const bool read = request.direction == Direction::read;
    (read ? usage_.read_bytes : usage_.written_bytes) += request.moved;
  }
  if (options_.trace && request.started_at)
    options_.trace->add(
        {*name_, name_in_trace(request), *request.started_at, now(), request.moved});
  request.whole == nullptr ? complete(std::move(one)) : end_part(std::move(one));
}

// The whole ends with the last of its parts.
void IoQueue::Driver::end_part(IoRequests one) {
  IoRequest& part = one.front();
  IoRequest& whole = *part.whole;
  if (!part.failure.ok()) whole.fail(std::move(part.failure), part.offset);
  one.clear();
  if (--whole.open == 0) complete(take(parted_, whole.self));
}

void IoQueue::Driver::complete(IoRequests one) {
  const EventSource source = std::move(one.front().source);
  Status how = std::move(one.front().failure);
  one.clear();  // what it holds is let go before the event fires
  source.complete(std::move(how));
}

void IoQueue::Driver::end_all(IoRequests requests) {
  while (!requests.empty()) end(take(requests, requests.begin()));
}

// Before any event of this pass fires, so that whoever waited for it finds it told, and no file is
// kept by what is told of it.
void IoQueue::Driver::publish() {
  const std::lock_guard lock(mutex_);
  const Nanoseconds time = now();
  account(usage_, time);
  accounted_to_ = time;
  snapshot_.parked = parked_.size();
  snapshot_.requests = schedule_.requests();
  snapshot_.chunks = schedule_.chunks_in_flight();
  snapshot_.bytes = schedule_.bytes_in_flight();
  snapshot_.front.tell(schedule_.front());
  snapshot_.parked_front.tell(parked_.empty() ? nullptr : &parked_.front());
  pressing_ |= parked_.empty() && !arrivals_.empty();  // they counted on one that is told of
  busy_ = snapshot_.chunks > 0;
  stalled_for_ = busy_ ? std::string() : snapshot_.parked_front.after.waits_for();
}

void IoQueue::Driver::account(Usage& usage, Nanoseconds until) const {
  const Nanoseconds passed = until - accounted_to_;
  if (busy_) usage.busy += passed;
  if (stalled_for_.empty()) return;
  usage.stalled += passed;
  usage.waited_for[stalled_for_] += passed;
}

Usage IoQueue::Driver::usage() const {
  const std::lock_guard lock(mutex_);
  Usage usage = usage_;
  account(usage, now());
  return usage;
}

std::string IoQueue::Driver::describe() const {
  const std::lock_guard lock(mutex_);
  return snapshot_.describe(*name_, arrivals_.size(), now());
}

bool IoQueue::Driver::can_pump() const {
  {
    const std::lock_guard lock(mutex_);
    if (!arrivals_.empty()) return true;
  }
  return !inbox_->empty() || engine_->due() <= now();
}

bool IoQueue::Driver::pump() {
  bool did = false;
  while (pass(Nanoseconds(0))) did = true;
  return did;
}

void IoQueue::Driver::close() {
  const Nanoseconds deadline = deadline_after(now(), options_.drain);
  const Status why(Code::cancelled, fmt::format("queue {} is closing", *name_));
  absorb();
  inbox_->close();  // what has a token there ends now
  IoRequests parked = std::exchange(parked_, {});
  publish();
  for (IoRequest& request : parked) request.failure = why;
  end_all(std::move(parked));
  drain(deadline, why);
  const bool stopped = engine_->stop(std::max(Nanoseconds(0), deadline - now()));
  IoRequests left = schedule_.abandon();
  publish();
  abandoned_ = !stopped;
  if (abandoned_) {
    quarantine(std::make_shared<const IoRequests>(std::move(left)));
    return quarantine(engine_);
  }
  for (IoRequest& request : left)
    request.failure = Status(Code::io, request.describe() + ": never completed");
  end_all(std::move(left));
}

// Until nothing is in flight, or the deadline.
void IoQueue::Driver::drain(Nanoseconds deadline, const Status& why) {
  for (;;) {
    schedule_.drop(std::nullopt, why);
    if (schedule_.any_ended()) {
      publish();
      finish_some();  // some may be to be done once more
      continue;
    }
    if (schedule_.requests() == 0 || now() >= deadline) return;
    if (manual_) {
      if (engine_->due() > deadline) return;
      options_.clock->advance_to(engine_->due());
    }
    pass(manual_ ? Nanoseconds(0) : deadline - now());
  }
}

}  // namespace headrace
