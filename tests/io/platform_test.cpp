#include "io/platform.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/io/refused_calls.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/gate.h"
#include "tests/support/pattern.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Task noting(std::string& text, const char* word) {
  Task task;
  task.body = [&text, word] {
    text += word;
    return Status();
  };
  return task;
}

TEST(Platform, WaitGivesTheStatusOfTheEvent) {
  const auto platform = Platform::open().value();
  EXPECT_TRUE(platform->wait({}, Nanoseconds(0)).ok());
  std::string text;
  EXPECT_TRUE(platform->wait(platform->copy_lane().run(noting(text, "ran")), seconds(60)).ok());
  EXPECT_EQ(text, "ran");
  Task failing;
  failing.body = [] { return Status(Code::device, "lost"); };
  const Status how = platform->wait(platform->copy_lane().run(std::move(failing)), seconds(60));
  EXPECT_EQ(how.code(), Code::device);
}

TEST(Platform, AWaitPastItsTimeIsATimeoutThatReportsEveryQueue) {
  const TemporaryFolder folder;
  const auto platform = Platform::open().value();
  const Gate gate("the test");
  std::string text;
  const Event updated = platform->optimizer_lane().run(noting(text, "x"), gate.event());
  IoQueue& queue = *platform->queue_for(folder.path()).value();
  const Event nothing = queue.register_memory({});
  ASSERT_TRUE(platform->wait(nothing, seconds(60)).ok() || nothing.done());
  const Status how = platform->wait(updated, milliseconds(1));
  EXPECT_EQ(how.code(), Code::timeout);
  EXPECT_NE(how.message().find("lane optimizer: 1 queued, front 'task' waits for the test"),
            std::string::npos)
      << how.message();
  EXPECT_NE(how.message().find("queue nvme0"), std::string::npos) << how.message();
  gate.open();
  EXPECT_TRUE(platform->wait(updated, seconds(60)).ok());
}

TEST(Platform, LanesAndQueuesAreMadeOnce) {
  const TemporaryFolder folder;
  const auto platform = Platform::open().value();
  EXPECT_EQ(&platform->copy_lane(), &platform->copy_lane());
  EXPECT_EQ(&platform->optimizer_lane(0), &platform->optimizer_lane());
  EXPECT_NE(&platform->optimizer_lane(0), &platform->optimizer_lane(1));
  std::filesystem::create_directory(folder.path() / "sub");
  IoQueue* const queue = platform->queue_for(folder.path()).value();
  EXPECT_EQ(platform->queue_for(folder.path() / "sub").value(), queue);
  EXPECT_EQ(queue->name(), "nvme0");
}

TEST(Platform, AFolderThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  const auto platform = Platform::open().value();
  const Status missing = platform->queue_for(folder.path() / "none").status();
  EXPECT_EQ(missing.code(), Code::io);
  EXPECT_NE(missing.message().find("/none: No such file"), std::string::npos) << missing.message();
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_EQ(platform->queue_for(folder.path() / "file").status().code(), Code::invalid);
}

TEST(Platform, OwnersAreAllDifferent) {
  const auto platform = Platform::open().value();
  const Owner first = platform->new_owner();
  EXPECT_NE(first, Owner::nobody);
  EXPECT_NE(first, platform->new_owner());
}

TEST(Platform, EachMessageIsPassedOnOnce) {
  std::vector<std::string> messages;
  PlatformOptions options;
  options.on_message = [&messages](std::string_view text) { messages.emplace_back(text); };
  const auto platform = Platform::open(std::move(options)).value();
  platform->say("one");
  platform->say("two");
  platform->say("one");
  EXPECT_EQ(messages, (std::vector<std::string>{"one", "two"}));
}

TEST(Platform, MessagesMayComeFromManyThreads) {
  std::atomic<int> passed = 0;
  PlatformOptions options;
  options.on_message = [&passed](std::string_view) { ++passed; };
  const auto platform = Platform::open(std::move(options)).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) platform->say(std::to_string(i));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(passed, 50);
}

TEST(Platform, AWrapperSeesTheEngine) {
  const TemporaryFolder folder;
  int wrapped = 0;
  PlatformOptions options;
  options.io = IoBackend::posix;
  options.wrap_engine = [&wrapped](std::unique_ptr<IoEngine> engine, Clock&) {
    ++wrapped;
    return engine;
  };
  const auto platform = Platform::open(std::move(options)).value();
  EXPECT_TRUE(platform->queue_for(folder.path()).ok());
  EXPECT_EQ(wrapped, 1);
}

// Opens a queue, writes and reads with it, and tells what was said.
std::string said_while_moving(IoBackend backend) {
  const TemporaryFolder folder;
  std::string said;
  PlatformOptions options;
  options.io = backend;
  options.on_message = [&said](std::string_view text) { said += std::string(text) + "\n"; };
  const auto platform = Platform::open(std::move(options)).value();
  const auto queue = platform->queue_for(folder.path());
  if (!queue.ok()) return queue.status().to_string();
  const File file = (*queue)->open_file({.path = folder.path(), .size = 8192}).value();
  const AlignedBuffer buffer(8192);
  const AlignedBuffer back(8192);
  fill_pattern(buffer.bytes(), 1, 0);
  const Event stored = (*queue)->write(file, 0, buffer.bytes());
  const Status how = platform->wait((*queue)->read(file, 0, back.bytes(), stored), seconds(60));
  if (!how.ok() || !is_pattern(back.bytes(), 1, 0)) return "wrong: " + how.to_string();
  return said;
}

TEST(Platform, WhereUringIsRefusedThreadsDoItAndOneLineSaysSo) {
  const std::vector<Refusal> refusals{{.call = SYS_io_uring_setup}};
  const std::string said =
      in_child(refusals, [] { return said_while_moving(IoBackend::automatic); });
  EXPECT_TRUE(said.starts_with("reading and writing with threads")) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(Platform, AskedForUringAloneARefusalIsAnError) {
  const std::vector<Refusal> refusals{{.call = SYS_io_uring_setup}};
  const std::string said = in_child(refusals, [] { return said_while_moving(IoBackend::uring); });
  EXPECT_TRUE(said.starts_with("unavailable")) << said;
}

TEST(Platform, ThreadsMayBeAskedFor) { EXPECT_EQ(said_while_moving(IoBackend::posix), ""); }

TEST(Platform, UsageNamesEveryLaneStreamAndQueue) {
  const TemporaryFolder folder;
  PlatformOptions options;
  options.trace = true;
  const auto platform = Platform::open(std::move(options)).value();
  const auto stream = platform->device().open_stream("up");
  platform->optimizer_lane();
  ASSERT_TRUE(platform->queue_for(folder.path()).ok());
  std::string names;
  for (const Usage& usage : platform->usage()) names += usage.name + " ";
  EXPECT_NE(names.find("optimizer "), std::string::npos) << names;
  EXPECT_NE(names.find("up "), std::string::npos) << names;
  EXPECT_NE(names.find("nvme0 "), std::string::npos) << names;
  const AlignedBuffer a(64);
  const AlignedBuffer b(64);
  ASSERT_TRUE(platform->wait(stream->copy(a.bytes(), ConstBytes(b.bytes())), seconds(60)).ok());
  EXPECT_EQ(platform->trace()->size(), 1u);
}

}  // namespace
}  // namespace headrace
