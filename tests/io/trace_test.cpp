#include "io/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace headrace {
namespace {

using std::chrono::microseconds;

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string written(const Trace& trace) {
  const TemporaryFolder folder;
  const Status how = trace.write(folder.path() / "trace.json");
  EXPECT_TRUE(how.ok()) << how.to_string();
  return text_of(folder.path() / "trace.json");
}

// The "tid" of the span called `name`.
std::string thread_of(const std::string& json, const std::string& name) {
  std::smatch match;
  const std::regex span("\"ph\":\"X\",\"pid\":1,\"tid\":(\\d+),\"name\":\"" + name + "\"");
  return std::regex_search(json, match, span) ? match[1].str() : "";
}

TEST(Trace, WritesSpansAsChromeTraceEvents) {
  Trace trace;
  trace.add({"optimizer", "update", microseconds(100), microseconds(250), 64});
  const std::string json = written(trace);
  EXPECT_NE(json.find("\"args\":{\"name\":\"optimizer\"}"), std::string::npos) << json;
  EXPECT_NE(json.find("\"name\":\"update\",\"ts\":0.000,\"dur\":150.000,\"args\":{\"bytes\":64}"),
            std::string::npos)
      << json;
}

TEST(Trace, SpansOfOneTrackThatOverlapLieOnTracksOfTheirOwn) {
  Trace trace;
  trace.add({"nvme0", "first", microseconds(0), microseconds(10), 0});
  trace.add({"nvme0", "second", microseconds(5), microseconds(15), 0});
  trace.add({"nvme0", "third", microseconds(10), microseconds(20), 0});
  const std::string json = written(trace);
  EXPECT_NE(thread_of(json, "first"), "");
  EXPECT_NE(thread_of(json, "first"), thread_of(json, "second"));
  EXPECT_EQ(thread_of(json, "first"), thread_of(json, "third"));
}

TEST(Trace, NamesAreEscaped) {
  Trace trace;
  trace.add({"a\"b", "c\\d\n", microseconds(0), microseconds(1), 0});
  const std::string json = written(trace);
  EXPECT_NE(json.find("a\\\"b"), std::string::npos) << json;
  EXPECT_NE(json.find("c\\\\d\\u000a"), std::string::npos) << json;
}

TEST(Trace, IsBoundedAndSaysHowManyItDropped) {
  Trace trace(2);
  for (int i = 0; i < 5; ++i) trace.add({"t", "n", microseconds(i), microseconds(i + 1), 0});
  EXPECT_EQ(trace.size(), 2u);
  EXPECT_NE(written(trace).find("\"dropped_spans\":3"), std::string::npos);
}

TEST(Trace, SpansAreThoseThatLieInPartBetweenTwoTimes) {
  Trace trace;
  for (int i = 0; i < 100; ++i)
    trace.add({std::to_string(i), "n", microseconds(i), microseconds(i + 1), 7});
  const std::vector<Span> found = trace.spans(microseconds(3), microseconds(5));
  trace.add({"one more", "text", microseconds(0), microseconds(1), 0});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].track, "3");
  EXPECT_EQ(found[1].name, "n");
  EXPECT_EQ(found[1].begin, microseconds(4));
  EXPECT_EQ(found[1].bytes, 7u);
}

TEST(Trace, AnEmptyOneIsAWholeFile) {
  const std::string json = written(Trace());
  EXPECT_EQ(json.front(), '{');
  EXPECT_TRUE(json.ends_with("]}\n")) << json;
}

TEST(Trace, AFileThatCannotBeWrittenIsNamed) {
  const TemporaryFolder folder;
  const Status how = Trace().write(folder.path() / "none" / "trace.json");
  EXPECT_EQ(how.code(), Code::io);
  EXPECT_NE(how.message().find("none/trace.json"), std::string::npos) << how.message();
}

TEST(Trace, TakesSpansFromManyThreads) {
  Trace trace;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&trace, t] {
      for (int i = 0; i < 100; ++i)
        trace.add({"track" + std::to_string(t), "n", microseconds(i), microseconds(i + 1), 0});
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(trace.size(), 400u);
}

}  // namespace
}  // namespace headrace
