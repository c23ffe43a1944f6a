#include "io/lane.h"

#include <pthread.h>

#include <fmt/format.h>

#include <algorithm>

#include "io/check.h"

namespace headrace {
namespace {

constexpr std::uint64_t kNewWork = 0;  // a token that is no task's id

}  // namespace

Lane::Lane(LaneOptions options)
    : options_(std::move(options)),
      name_(std::make_shared<const std::string>(options_.name)),
      inbox_(std::make_shared<Inbox>()) {
  usage_.name = *name_;
}

std::unique_ptr<Lane> Lane::manual(LaneOptions options) {
  HEADRACE_CHECK(options.clock != nullptr);
  return std::unique_ptr<Lane>(new Lane(std::move(options)));
}

std::unique_ptr<Lane> Lane::threaded(LaneOptions options) {
  std::unique_ptr<Lane> lane(new Lane(std::move(options)));
  lane->thread_ = std::thread([self = lane.get()] { self->loop(); });
  return lane;
}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  inbox_->post(kNewWork);
  if (thread_.joinable()) thread_.join();
  if (started_) finish();
  inbox_->close();
  for (Item& item : remove(std::nullopt))
    item.source.complete(Status(Code::cancelled, fmt::format("lane {} is gone", *name_)));
}

Event Lane::run(Task task, Event after) {
  const EventSource source(name_);
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({next_id_++, std::move(task), std::move(after), source});
    if (items_.size() > 1) return source.event();  // the lane looks again after the front one
  }
  inbox_->post(kNewWork);
  return source.event();
}

std::vector<Lane::Item> Lane::remove(std::optional<Owner> owner) {
  std::vector<Item> removed;
  const std::lock_guard lock(mutex_);
  const auto keep = std::stable_partition(items_.begin(), items_.end(), [&](const Item& item) {
    return owner.has_value() && item.task.owner != *owner;
  });
  std::move(keep, items_.end(), std::back_inserter(removed));
  items_.erase(keep, items_.end());
  return removed;
}

void Lane::cancel(Owner owner) {
  for (Item& item : remove(owner)) {
    item.task.body = nullptr;
    item.source.complete(Status(
        Code::cancelled, fmt::format("'{}' was dropped from lane {}", item.task.name, *name_)));
  }
  inbox_->post(kNewWork);
}

Usage Lane::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

std::string Lane::describe() const {
  const std::lock_guard lock(mutex_);
  if (items_.empty()) return {};
  const Item& front = items_.front();
  return fmt::format("lane {}: {} queued, front '{}' waits for {}", *name_, items_.size(),
                     front.task.name, front.after.done() ? "its turn" : front.after.waits_for());
}

Nanoseconds Lane::now() const { return options_.clock ? options_.clock->now() : Clock().now(); }

Nanoseconds Lane::cost(const Task& task) const {
  if (options_.bytes_per_second == 0 || task.bytes == 0) return task.at_least;
  const double seconds =
      static_cast<double>(task.bytes) / static_cast<double>(options_.bytes_per_second);
  return std::max(task.at_least, Nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

Lane::Item Lane::pop_front() {
  Item item = std::move(items_.front());
  items_.pop_front();
  return item;
}

std::optional<Lane::Item> Lane::next() {
  for (std::vector<std::uint64_t> tokens;;) {
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return std::nullopt;
      if (!items_.empty()) {
        Item& front = items_.front();
        if (watched_ != front.id) {
          watched_ = front.id;
          watched_since_ = now();
          open_ = front.after.notify(inbox_, front.id);
          watched_for_ = open_ > 0 ? front.after.waits_for() : std::string();
        }
        if (open_ == 0) {
          if (!watched_for_.empty()) {
            const Nanoseconds waited = now() - watched_since_;
            usage_.stalled += waited;
            usage_.waited_for[watched_for_] += waited;
          }
          return pop_front();
        }
      }
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
      busy_until_ = std::max(busy_until_, begin) + least;
      std::this_thread::sleep_until(std::chrono::steady_clock::time_point(busy_until_));
    }
    end(*item, begin, now(), std::move(how));
  }
}

Status Lane::perform(Item& item) {
  Status how = item.after.status();
  if (how.ok() && item.task.body) how = item.task.body();
  item.task.body = nullptr;  // what it holds is let go before the event fires
  return how;
}

void Lane::end(Item& item, Nanoseconds begin, Nanoseconds end, Status how) {
  {
    const std::lock_guard lock(mutex_);
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
  end(item, started_at_, std::max(started_at_, now()), std::move(how));
}

}  // namespace headrace
