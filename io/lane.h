// Lane: one thread working through one queue of tasks, first in, first out, but for tasks that
// yield: they stand in a line of their own, and have their turn when the other one has nothing
// ready, or has had more than twice their bytes before them: of a busy lane they get some, too.
//
// run() may be called from any thread and never blocks. A task computes and returns; it never waits
// and never queues work that it then waits for. If what it follows failed, it is skipped and ends
// with the same Status. Only cancelled work steps aside: it does not hold up what others queued
// behind it, however long what it follows takes. The lane must outlive nobody: destroying it ends
// what has not started with Code::cancelled, and joins after the running task.
//
// A manual lane has no thread: the simulated platform steps it in virtual time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/clock.h"
#include "io/event.h"
#include "io/event_source.h"
#include "io/trace.h"
#include "io/usage.h"

namespace headrace {

// Whose work an operation is; what cancel() names. 0: nobody's.
enum class Owner : std::uint64_t { nobody = 0 };

struct Task {
  std::function<Status()> body;
  std::uint64_t bytes = 0;    // what a throttled or simulated lane charges
  Nanoseconds at_least{0};    // and the least time it takes: the one permitted sleep
  const char* name = "task";  // a literal, for the trace
  Owner owner = Owner::nobody;
  bool yields = false;  // to what does not and is ready, but not for ever
};

class Lane;

struct LaneOptions {
  std::string name;                          // also the thread's name, cut to 15 characters
  std::uint64_t bytes_per_second = 0;        // 0: as fast as it goes
  std::function<void()> on_start;            // on the lane's thread, first: binding, priority
  Clock* clock = nullptr;                    // must outlive the lane; null: real time
  Trace* trace = nullptr;                    // must outlive the lane
  bool dry = false;                          // tasks take their time, and nothing is done
  std::function<void(const Lane&)> on_gone;  // first thing in the destructor
};

class Lane {
 public:
  static std::unique_ptr<Lane> threaded(LaneOptions options);
  static std::unique_ptr<Lane> manual(LaneOptions options);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // `bytes` of the task count as written in the lane's usage.
  Event run(Task task, Event after = {});
  // What `owner` has queued and what has not started ends with Code::cancelled, in order and not
  // before what it follows is over, as that may use its memory until then. What `owner` queues
  // later comes after it. The event: all that `owner` queued before, started or not, has ended.
  Event cancel(Owner owner);
  const std::string& name() const noexcept { return *name_; }
  Usage usage() const;
  // "lane optimizer: runs 'update' for 0.200 s; 3 queued, front 'update' waits for nvme0" ("" when
  // idle and empty). For reports.
  std::string describe() const;

  // Manual lanes only, from the thread that steps.
  bool can_start() const;    // idle, and what a front task follows is over
  void start(bool run_now);  // takes that front task; its body runs now or in finish()
  Nanoseconds due() const;   // when the started task ends; kForever when none is
  void finish();             // ends the started task

 private:
  struct Item {
    std::uint64_t id;  // never 0
    Task task;
    Event after;
    EventSource source;
    Nanoseconds since;  // when it was queued; of one that was waited for, when it began
    bool cancelled = false;
    // Set when it comes to the front of its line, and is watched.
    bool watched = false;
    std::size_t open = 0;          // how many operations that it follows are open
    Nanoseconds watched_since{0};  // and since when it waits
    std::string watched_for;       // "": it does not have to
  };
  using Line = std::deque<Item>;
  Lane(LaneOptions options, bool manual);
  Nanoseconds now() const;
  void loop();
  std::optional<Item> next();                                 // blocks; none: the lane is closing
  Line& line_of(const Task& task);                            // mutex_ held
  void watch_fronts();                                        // mutex_ held
  void watch(Item& front);                                    // mutex_ held
  void count_down(const std::vector<std::uint64_t>& tokens);  // mutex_ held
  bool ready(const Line& line) const;
  bool any_ready() const;              // mutex_ held
  Item pop_ready();                    // mutex_ held
  Line& next_line();                   // mutex_ held; of the two
  Item pop(Line& line);                // mutex_ held
  void note_stall(const Item& begun);  // mutex_ held
  Status perform(Item& item);
  Nanoseconds cost(const Task& task) const;
  void end(Item& item, Nanoseconds begin, Nanoseconds end, Status how);

  const LaneOptions options_;
  const bool manual_;
  const std::shared_ptr<const std::string> name_;
  const std::shared_ptr<Inbox> inbox_;
  mutable std::mutex mutex_;
  Line line_;                       // guarded by mutex_
  Line yielding_;                   // guarded by mutex_
  std::uint64_t let_go_first_ = 0;  // guarded by mutex_; bytes that one that is ready yielded to
  std::map<Owner, Line> aside_;  // guarded by mutex_; of owners with cancelled work, while any is
  std::uint64_t next_id_ = 1;    // guarded by mutex_
  bool closing_ = false;         // guarded by mutex_
  const char* runs_ = nullptr;   // guarded by mutex_; the running task's name
  Nanoseconds runs_since_{0};    // guarded by mutex_
  Nanoseconds idle_since_{0};    // guarded by mutex_
  Usage usage_;                  // guarded by mutex_
  // touched only by the lane's thread, or by the thread that steps
  Nanoseconds busy_until_{0};
  std::optional<Item> started_;
  std::optional<Status> started_how_;  // the started body's result, once it has run
  Nanoseconds started_at_{0};
  std::thread thread_;
};

}  // namespace headrace
