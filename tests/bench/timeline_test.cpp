#include "bench/timeline.h"

#include <gtest/gtest.h>

namespace headrace::bench {
namespace {

using std::chrono::milliseconds;

TEST(Timeline, CountsWhatIsUnderWayAtOnce) {
  Trace trace;
  trace.add({"nvme0", "load", milliseconds(110), milliseconds(130), 10});
  trace.add({"nvme0", "load", milliseconds(120), milliseconds(130), 20});
  trace.add({"optimizer", "update", milliseconds(105), milliseconds(106), 0});
  const Timeline timeline = timeline_of(trace, "step", milliseconds(100), milliseconds(200));
  EXPECT_DOUBLE_EQ(timeline.seconds, 0.1);
  ASSERT_EQ(timeline.activities.size(), 2u);
  EXPECT_EQ(timeline.activities[1].name, "update");
  const Activity& load = timeline.activities[0];
  EXPECT_EQ(load.bytes, 30u);
  EXPECT_EQ(load.most, 2);
  EXPECT_DOUBLE_EQ(load.busy_seconds, 0.02);
  ASSERT_EQ(load.levels.size(), 3u);
  EXPECT_DOUBLE_EQ(load.levels[1].seconds, 0.02);
  EXPECT_EQ(load.levels[1].count, 2);
  EXPECT_EQ(load.levels[2].count, 0);
}

TEST(Timeline, CutsWhatReachesOutOfTheStep) {
  Trace trace;
  trace.add({"q", "before", milliseconds(0), milliseconds(100), 0});
  trace.add({"q", "over both ends", milliseconds(90), milliseconds(300), 0});
  const Timeline timeline = timeline_of(trace, "step", milliseconds(100), milliseconds(200));
  ASSERT_EQ(timeline.activities.size(), 1u);
  EXPECT_DOUBLE_EQ(timeline.activities[0].levels.front().seconds, 0);
  EXPECT_DOUBLE_EQ(timeline.activities[0].levels.back().seconds, 0.1);
}

TEST(Timeline, OneAfterTheOtherIsOneLongLevel) {
  Trace trace;
  for (int i = 0; i < 10; ++i) trace.add({"q", "load", milliseconds(i), milliseconds(i + 1), 0});
  const Timeline timeline = timeline_of(trace, "step", milliseconds(0), milliseconds(20));
  ASSERT_EQ(timeline.activities.size(), 1u);
  EXPECT_EQ(timeline.activities[0].levels.size(), 2u);
  EXPECT_DOUBLE_EQ(timeline.activities[0].busy_seconds, 0.01);
}

TEST(Timeline, LeavesOutWhatTakesNoTime) {
  Trace trace;
  trace.add({"q", "cancel", milliseconds(1), milliseconds(1), 0});
  EXPECT_TRUE(timeline_of(trace, "s", milliseconds(0), milliseconds(10)).activities.empty());
  EXPECT_TRUE(timeline_of(Trace(), "s", milliseconds(0), milliseconds(0)).activities.empty());
}

}  // namespace
}  // namespace headrace::bench
