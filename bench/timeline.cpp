#include "bench/timeline.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "bench/model.h"

namespace headrace::bench {
namespace {

// How many more, or fewer, are under way from each time on.
using Changes = std::map<Nanoseconds, int>;

struct Found {
  Changes changes;
  std::uint64_t bytes = 0;
};

Activity activity_of(std::string name, const Found& found, Nanoseconds begin) {
  Activity activity;
  activity.name = std::move(name);
  activity.bytes = found.bytes;
  int count = 0;
  double before = 0;
  for (const auto& [time, change] : found.changes) {
    const double seconds = seconds_of(time - begin);
    if (count > 0) activity.busy_seconds += seconds - before;
    before = seconds;
    if (change == 0) continue;  // one ends as another begins
    count += change;
    activity.most = std::max(activity.most, count);
    activity.levels.push_back({seconds, count});
  }
  return activity;
}

// In the order of a step; others after them, in that of their begin.
std::pair<std::ptrdiff_t, double> place_of(const Activity& activity) {
  constexpr std::array<std::string_view, 5> known{"compute", "load", "update", "checksum", "store"};
  return {std::ranges::find(known, activity.name) - known.begin(), activity.levels.front().seconds};
}

}  // namespace

Timeline timeline_of(const Trace& trace, std::string name, Nanoseconds begin, Nanoseconds end) {
  std::map<std::string_view, Found> by_name;
  for (const Span& span : trace.spans(begin, end)) {
    Found& found = by_name[span.name];
    ++found.changes[std::max(span.begin, begin)];
    --found.changes[std::min(span.end, end)];
    found.bytes += span.bytes;
  }
  Timeline timeline{std::move(name), seconds_of(end - begin), {}};
  for (const auto& [text, found] : by_name) {
    Activity activity = activity_of(std::string(text), found, begin);
    if (activity.busy_seconds * 1000 >= timeline.seconds && !activity.levels.empty())
      timeline.activities.push_back(std::move(activity));
  }
  std::ranges::stable_sort(timeline.activities, {}, &place_of);
  return timeline;
}

}  // namespace headrace::bench
