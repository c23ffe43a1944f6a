#include "io/lane.h"

#include <pthread.h>

#include <fmt/format.h>

#include <algorithm>

#include "io/check.h"

namespace headrace {
namespace {

constexpr std::uint64_t kNewWork = 0;  // a token that is no task's id

}  // namespace

Lane::Lane(LaneOptions options, bool manual)
    : options_(std::move(options)),
      manual_(manual),
      name_(std::make_shared<const std::string>(options_.name)),
      inbox_(std::make_shared<Inbox>()) {
  usage_.name = *name_;
}

std::unique_ptr<Lane> Lane::manual(LaneOptions options) {
  HEADRACE_CHECK(options.clock != nullptr);
  return std::unique_ptr<Lane>(new Lane(std::move(options), true));
}

std::unique_ptr<Lane> Lane::threaded(LaneOptions options) {
  std::unique_ptr<Lane> lane(new Lane(std::move(options), false));
  lane->thread_ = std::thread([self = lane.get()] { self->loop(); });
  return lane;
}

Lane::~Lane() {
  if (options_.on_gone) options_.on_gone(*this);
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  inbox_->post(kNewWork);
  if (thread_.joinable()) thread_.join();
  if (started_) finish();
  inbox_->close();
  for (Item& item : std::exchange(items_, {})) {
    item.task.body = nullptr;
    item.source.complete(Status(Code::cancelled, fmt::format("lane {} is gone", *name_)));
  }
}

Event Lane::run(Task task, Event after) {
  const EventSource source(name_);
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({next_id_++, std::move(task), std::move(after), source, now()});
    if (items_.size() > 1) return source.event();  // the lane looks again after the front one
    if (manual_ && !started_) watch_front();
  }
  inbox_->post(kNewWork);
  return source.event();
}

void Lane::cancel(Owner owner) {
  std::vector<std::function<Status()>> bodies;  // destroyed without the mutex
  const std::lock_guard lock(mutex_);
  for (Item& item : items_) {
    if (item.task.owner != owner) continue;
    bodies.push_back(std::exchange(item.task.body, nullptr));
    item.task.bytes = 0;
    item.task.at_least = Nanoseconds(0);
    item.cancelled = true;
  }
}

Usage Lane::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

std::string Lane::describe() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  if (runs_ != nullptr)
    text = fmt::format("runs '{}' for {:.3f} s", runs_,
                       std::chrono::duration<double>(now() - runs_since_).count());
  if (!items_.empty()) {
    const Item& front = items_.front();
    const std::string after = front.after.waits_for();
    text += fmt::format("{}{} queued, front '{}' waits for {}", text.empty() ? "" : "; ",
                        items_.size(), front.task.name, after.empty() ? "its turn" : after);
  }
  return text.empty() ? text : fmt::format("lane {}: {}", *name_, text);
}

Nanoseconds Lane::now() const { return options_.clock ? options_.clock->now() : Clock().now(); }

Nanoseconds Lane::cost(const Task& task) const {
  if (options_.bytes_per_second == 0 || task.bytes == 0) return task.at_least;
  const double seconds =
      static_cast<double>(task.bytes) / static_cast<double>(options_.bytes_per_second);
  return std::max(task.at_least, Nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

// Notes what the task that is in front now waits for, and since when.
void Lane::watch_front() {
  if (items_.empty() || watched_ == items_.front().id) return;
  const Item& front = items_.front();
  watched_ = front.id;
  watched_since_ = now();
  // A manual lane is looked at whenever something may have changed.
  open_ = manual_ ? 0 : front.after.notify(inbox_, front.id);
  watched_for_ = front.after.waits_for();
}

Lane::Item Lane::pop_front() {
  if (!watched_for_.empty()) {
    const Nanoseconds waited = now() - watched_since_;
    usage_.stalled += waited;
    usage_.waited_for[std::exchange(watched_for_, {})] += waited;
    items_.front().since = now();
  }
  Item item = std::move(items_.front());
  items_.pop_front();
  runs_ = item.task.name;
  runs_since_ = now();
  return item;
}

std::optional<Lane::Item> Lane::next() {
  for (std::vector<std::uint64_t> tokens;;) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return std::nullopt;
      watch_front();
      if (!items_.empty() && open_ == 0) return pop_front();
    }
    inbox_->wait_until(kForever);
    inbox_->take(tokens);
    for (const std::uint64_t token : tokens) open_ -= token == watched_ ? 1 : 0;
  }
}

void Lane::loop() {
  pthread_setname_np(pthread_self(), name_->substr(0, 15).c_str());
  if (options_.on_start) options_.on_start();
  while (std::optional<Item> item = next()) {
    const Nanoseconds begin = now();
    Status how = perform(*item);
    if (const Nanoseconds least = cost(item->task); how.ok() && least > Nanoseconds(0)) {
      busy_until_ = std::max(busy_until_, item->since) + least;
      std::this_thread::sleep_until(std::chrono::steady_clock::time_point(busy_until_));
    }
    end(*item, begin, now(), std::move(how));
  }
}

Status Lane::perform(Item& item) {
  Status how = item.after.status();
  if (how.ok() && item.cancelled)
    how = Status(Code::cancelled,
                 fmt::format("'{}' was dropped from lane {}", item.task.name, *name_));
  if (how.ok() && item.task.body && !options_.dry) how = item.task.body();
  item.task.body = nullptr;  // what it holds is let go before the event fires
  return how;
}

void Lane::end(Item& item, Nanoseconds begin, Nanoseconds end, Status how) {
  {
    const std::lock_guard lock(mutex_);
    runs_ = nullptr;
    ++usage_.operations;
    usage_.failed += how.ok() ? 0 : 1;
    usage_.written_bytes += how.ok() ? item.task.bytes : 0;
    usage_.busy += end - begin;
  }
  if (options_.trace) options_.trace->add({*name_, item.task.name, begin, end, item.task.bytes});
  item.source.complete(std::move(how));
}

bool Lane::can_start() const {
  const std::lock_guard lock(mutex_);
  return !started_ && !items_.empty() && items_.front().after.done();
}

void Lane::start(bool run_now) {
  HEADRACE_CHECK(can_start());
  {
    const std::lock_guard lock(mutex_);
    started_ = pop_front();
  }
  started_at_ = now();
  const bool skipped = !started_->after.status().ok();
  busy_until_ = started_at_ + (skipped ? Nanoseconds(0) : cost(started_->task));
  started_how_.reset();
  if (run_now || skipped) started_how_ = perform(*started_);
}

Nanoseconds Lane::due() const { return started_ ? busy_until_ : kForever; }

void Lane::finish() {
  HEADRACE_CHECK(started_.has_value());
  Item item = std::move(*started_);
  started_.reset();
  Status how = started_how_ ? std::move(*started_how_) : perform(item);
  {
    const std::lock_guard lock(mutex_);
    watch_front();
  }
  end(item, started_at_, std::max(started_at_, now()), std::move(how));
}

}  // namespace headrace
