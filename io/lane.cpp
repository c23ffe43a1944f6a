#include "io/lane.h"

#include <pthread.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "io/check.h"

namespace headrace {
namespace {

constexpr std::uint64_t kNewWork = 0;  // a token that is no task's id
constexpr std::uint64_t kYields = 2;   // times its bytes to others, and no more

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
  for (Line* line : {&line_, &yielding_})
    std::ranges::move(*line, std::back_inserter(aside_[Owner::nobody]));
  for (auto& [owner, line] : std::exchange(aside_, {}))
    for (Item& item : line) {
      item.task.body = nullptr;
      item.source.complete(Status(Code::cancelled, fmt::format("lane {} is gone", *name_)));
    }
}

Event Lane::run(Task task, Event after) {
  const EventSource source(name_);
  {
    const std::lock_guard lock(mutex_);
    Line& line = line_of(task);
    line.push_back({next_id_++, std::move(task), std::move(after), source, now()});
    if (line.size() > 1) return source.event();  // the lane looks again after the front one
    if (manual_ && !started_) watch_fronts();
  }
  inbox_->post(kNewWork);
  return source.event();
}

Lane::Line& Lane::line_of(const Task& task) {
  const auto aside = aside_.find(task.owner);
  if (aside != aside_.end()) return aside->second;
  return task.yields ? yielding_ : line_;
}

Event Lane::cancel(Owner owner) {
  std::vector<std::function<Status()>> bodies;  // destroyed without the mutex
  const EventSource last(name_);
  {
    const std::lock_guard lock(mutex_);
    Line& aside = aside_[owner];
    for (Line* line : {&line_, &yielding_}) {
      const auto mine =
          std::stable_partition(line->begin(), line->end(),
                                [owner](const Item& item) { return item.task.owner != owner; });
      std::move(mine, line->end(), std::back_inserter(aside));
      line->erase(mine, line->end());
    }
    std::ranges::sort(aside, {}, &Item::id);
    for (Item& item : aside) {
      bodies.push_back(std::exchange(item.task.body, nullptr));
      item.task.bytes = 0;
      item.task.at_least = Nanoseconds(0);
      item.cancelled = true;
    }
    aside.push_back({next_id_++, Task{.name = "cancel", .owner = owner}, {}, last, now()});
  }
  inbox_->post(kNewWork);
  return last.event();
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
  const auto add = [&text](const Line& line, std::string_view what) {
    if (line.empty()) return;
    const std::string after = line.front().after.waits_for();
    text += fmt::format("{}{} {}, front '{}' waits for {}", text.empty() ? "" : "; ", line.size(),
                        what, line.front().task.name, after.empty() ? "its turn" : after);
  };
  add(line_, "queued");
  add(yielding_, "that yield");
  for (const auto& [owner, line] : aside_) add(line, "cancelled");
  return text.empty() ? text : fmt::format("lane {}: {}", *name_, text);
}

Nanoseconds Lane::now() const { return options_.clock ? options_.clock->now() : Clock().now(); }

Nanoseconds Lane::cost(const Task& task) const {
  if (options_.bytes_per_second == 0 || task.bytes == 0) return task.at_least;
  const double seconds =
      static_cast<double>(task.bytes) / static_cast<double>(options_.bytes_per_second);
  return std::max(task.at_least, Nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

void Lane::watch_fronts() {
  for (Line* line : {&line_, &yielding_})
    if (!line->empty()) watch(line->front());
  for (auto& [owner, line] : aside_) watch(line.front());
}

// Notes what the task that is in front now waits for, and since when.
void Lane::watch(Item& front) {
  if (std::exchange(front.watched, true)) return;
  front.watched_since = now();
  // A manual lane is looked at whenever something may have changed.
  front.open = manual_ ? 0 : front.after.notify(inbox_, front.id);
  front.watched_for = front.after.waits_for();
}

// Fronts are watched, and of a line that was set aside perhaps one behind it: it is made of two.
void Lane::count_down(const std::vector<std::uint64_t>& tokens) {
  const auto count = [](Line& line, std::uint64_t token) {
    const auto at = std::ranges::lower_bound(line, token, {}, &Item::id);
    if (at != line.end() && at->id == token && at->watched) --at->open;
  };
  for (const std::uint64_t token : tokens) {
    count(line_, token);
    count(yielding_, token);
    for (auto& [owner, line] : aside_) count(line, token);
  }
}

bool Lane::ready(const Line& line) const {
  if (line.empty()) return false;
  const Item& front = line.front();
  return manual_ ? front.after.done() : front.watched && front.open == 0;
}

bool Lane::any_ready() const {
  return ready(line_) || ready(yielding_) ||
         std::ranges::any_of(aside_, [this](const auto& entry) { return ready(entry.second); });
}

// What was cancelled first: it takes no time.
Lane::Item Lane::pop_ready() {
  const auto aside =
      std::ranges::find_if(aside_, [this](const auto& entry) { return ready(entry.second); });
  if (aside == aside_.end()) return pop(next_line());
  Item item = pop(aside->second);
  if (aside->second.empty()) aside_.erase(aside);
  return item;
}

Lane::Line& Lane::next_line() {
  if (!ready(yielding_)) return line_;
  if (ready(line_) && let_go_first_ <= kYields * yielding_.front().task.bytes) {
    let_go_first_ += line_.front().task.bytes;
    return line_;
  }
  let_go_first_ = 0;
  return yielding_;
}

Lane::Item Lane::pop(Line& line) {
  Item item = std::move(line.front());
  line.pop_front();
  runs_ = item.task.name;
  runs_since_ = now();
  note_stall(item);
  if (!item.watched_for.empty()) item.since = runs_since_;
  return item;
}

// The lane was idle until now, since its last task ended or it came to wait for something: for what
// has now begun, or is still in front.
void Lane::note_stall(const Item& begun) {
  const auto waits = [](const Item& item) {
    return !item.cancelled && item.watched && !item.watched_for.empty();
  };
  const Item* waited = waits(begun) ? &begun : nullptr;
  for (const Line* line : {&line_, &yielding_})
    if (waited == nullptr && !line->empty() && waits(line->front())) waited = &line->front();
  if (waited == nullptr) return;
  const Nanoseconds time = runs_since_ - std::max(waited->watched_since, idle_since_);
  usage_.stalled += time;
  usage_.waited_for[waited->watched_for] += time;
}

// What has arrived is looked at first: a task that yields must not go before one that has become
// ready.
std::optional<Lane::Item> Lane::next() {
  for (std::vector<std::uint64_t> tokens;;) {
    inbox_->take(tokens);
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return std::nullopt;
      count_down(tokens);
      watch_fronts();
      if (any_ready()) return pop_ready();
    }
    inbox_->wait_until(kForever);
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
    idle_since_ = end;
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
  return !started_ && any_ready();
}

void Lane::start(bool run_now) {
  HEADRACE_CHECK(can_start());
  {
    const std::lock_guard lock(mutex_);
    started_ = pop_ready();
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
    watch_fronts();
  }
  end(item, started_at_, std::max(started_at_, now()), std::move(how));
}

}  // namespace headrace
