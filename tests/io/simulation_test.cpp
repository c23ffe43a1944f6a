// The simulated platform: the same order for the same seed, virtual time as computed by hand,
// deadlocks that are told, and bytes that move at the worst possible moment.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "io/platform.h"
#include "tests/support/gate.h"
#include "tests/support/pattern.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Task noting(std::string& text, char letter) {
  Task task;
  task.body = [&text, letter] {
    text += letter;
    return Status();
  };
  return task;
}

File scratch_file(IoQueue& queue, const char* folder, std::uint64_t size) {
  FileSpec spec;
  spec.path = folder;
  spec.size = size;
  return queue.open_file(spec).value();
}

// A disk of 1 GB/s, without latency: 1 MB is 1 ms. Updates are as fast.
SimulationOptions plain_rates(std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.disk_read_bytes_per_second = 1'000'000'000;
  options.disk_write_bytes_per_second = 1'000'000'000;
  options.disk_latency = Nanoseconds(0);
  options.update_bytes_per_second = 1'000'000'000;
  options.copy_bytes_per_second = 1'000'000'000;
  options.queue.chunk_bytes = 64 * kKiB;
  return options;
}

std::string order_of(std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  const auto platform = Platform::simulate(options);
  std::string text;
  std::vector<Event> ends;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    ends.push_back(platform->optimizer_lane().run(noting(text, letter)));
    ends.push_back(platform->copy_lane().run(noting(text, static_cast<char>(letter - 'a' + 'A'))));
  }
  EXPECT_TRUE(platform->wait(Event::all(ends), seconds(1)).ok());
  return text;
}

TEST(Simulation, TheSameSeedGivesTheSameOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(order_of(seed), order_of(seed));
}

TEST(Simulation, OtherSeedsGiveOtherOrdersButLanesStayInOrder) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string order = order_of(seed);
    orders.insert(order);
    std::string small;
    for (const char letter : order)
      if (letter >= 'a') small += letter;
    EXPECT_EQ(small, "abcd");
  }
  EXPECT_GT(orders.size(), 10u);
}

TEST(Simulation, NothingRunsUntilSomebodyWaits) {
  const auto platform = Platform::simulate();
  std::string text;
  const Event event = platform->copy_lane().run(noting(text, 'a'));
  EXPECT_EQ(text, "");
  EXPECT_TRUE(platform->wait(event, seconds(1)).ok());
  EXPECT_EQ(text, "a");
}

TEST(Simulation, StreamsOfTheDeviceRunInVirtualTimeToo) {
  const auto platform = Platform::simulate(plain_rates(1));
  const auto stream = platform->device().open_stream("up");
  const Memory host = platform->device().allocate(Home::host, 1'000'000).value();
  const Memory device = platform->device().allocate(Home::device, 1'000'000).value();
  const Memory back = platform->device().allocate(Home::host, 1'000'000).value();
  fill_pattern(host.view().bytes(), 1, 0);
  const Event up = stream->copy(device.view(), host.view());
  const Event down = stream->copy(back.view(), device.view(), up);
  EXPECT_TRUE(platform->wait(down, seconds(1)).ok());
  EXPECT_TRUE(is_pattern(back.view().bytes(), 1, 0));
  EXPECT_EQ(platform->clock().now(), milliseconds(2));
  EXPECT_TRUE(platform->wait(stream->occupy(milliseconds(5), "forward"), seconds(1)).ok());
  EXPECT_EQ(platform->clock().now(), milliseconds(7));
}

// Reads, updates and writes `shards` pieces of 1 MB through `slots` pieces of memory; every byte
// grows by one. Gives the virtual time.
Nanoseconds time_of_pipeline(std::uint64_t seed, std::size_t shards, std::size_t slots) {
  constexpr std::size_t kBytes = 1'000 * 1'024;  // whole blocks; 1.024 ms each way
  const auto platform = Platform::simulate(plain_rates(seed));
  IoQueue& queue = *platform->queue_for("/disk").value();
  const File file = scratch_file(queue, "/disk", shards * kBytes);
  const AlignedBuffer buffer(slots * kBytes);
  std::vector<Event> free(slots);
  std::vector<Event> ends;
  for (std::size_t k = 0; k < shards; ++k) {
    const Bytes slot = buffer.sub(k % slots * kBytes, kBytes);
    const Event loaded = queue.read(file, k * kBytes, slot, free[k % slots]);
    Task update;
    update.bytes = kBytes;
    update.body = [slot] {
      for (std::byte& byte : slot) byte = std::byte(static_cast<unsigned char>(byte) + 1);
      return Status();
    };
    const Event updated = platform->optimizer_lane().run(std::move(update), loaded);
    ends.push_back(queue.write(file, k * kBytes, slot, updated));
    free[k % slots] = ends.back().over();
  }
  EXPECT_TRUE(platform->wait(Event::all(ends), seconds(10)).ok());
  const Nanoseconds time = platform->clock().now();
  const AlignedBuffer whole(shards * kBytes);
  EXPECT_TRUE(platform->wait(queue.read(file, 0, whole.bytes()), seconds(10)).ok());
  const auto is_one = [](std::byte byte) { return byte == std::byte{1}; };
  EXPECT_TRUE(std::all_of(whole.bytes().begin(), whole.bytes().end(), is_one)) << "seed " << seed;
  return time;
}

double in_ms(Nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

// The last update has nothing to hide behind when its read came last.
TEST(Simulation, APipelineOfTwoSlotsTakesTheTimeOfItsSlowestStage) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const double disk_alone = 8 * 2 * 1.024;
    const double time = in_ms(time_of_pipeline(seed, 8, 2));
    EXPECT_GE(time, disk_alone - 0.01) << seed;
    EXPECT_LE(time, disk_alone + 1.024 + 0.01) << seed;
  }
}

TEST(Simulation, APipelineOfOneSlotTakesTheTimeOfAllStages) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed)
    EXPECT_NEAR(in_ms(time_of_pipeline(seed, 8, 1)), 8 * 3 * 1.024, 0.01) << seed;
}

TEST(Simulation, TheDiskServesOneTransferAtATimeAndLatenciesOverlap) {
  SimulationOptions options = plain_rates(1);
  options.disk_latency = milliseconds(10);
  const auto platform = Platform::simulate(options);
  IoQueue& queue = *platform->queue_for("/disk").value();
  const File file = scratch_file(queue, "/disk", 1'024'000);
  const AlignedBuffer buffer(1'024'000);
  EXPECT_TRUE(platform->wait(queue.read(file, 0, buffer.bytes()), seconds(1)).ok());
  EXPECT_GE(platform->clock().now(), milliseconds(11));
  EXPECT_LE(platform->clock().now(), milliseconds(13));
}

TEST(Simulation, DrivesWorkAtTheSameTime) {
  const auto platform = Platform::simulate(plain_rates(1));
  const AlignedBuffer buffer(2 * 1'024'000);
  std::vector<Event> ends;
  std::vector<File> files;
  for (std::size_t i = 0; i < 2; ++i) {
    const char* const folder = i == 0 ? "/disk0" : "/disk1";
    IoQueue& queue = *platform->queue_for(folder).value();
    files.push_back(scratch_file(queue, folder, 1'024'000));
    ends.push_back(queue.read(files.back(), 0, buffer.sub(i * 1'024'000, 1'024'000)));
  }
  EXPECT_TRUE(platform->wait(Event::all(ends), seconds(1)).ok());
  EXPECT_NEAR(in_ms(platform->clock().now()), 1.024, 0.01);
  EXPECT_EQ(platform->queue_for("/disk0/sub").value(), platform->queue_for("/disk0").value());
}

TEST(Simulation, FilesDoNotMix) {
  const auto platform = Platform::simulate();
  IoQueue& queue = *platform->queue_for("/disk").value();
  const File one = scratch_file(queue, "/disk", 8 * 4096);
  const File two = scratch_file(queue, "/disk", 8 * 4096);
  const AlignedBuffer buffer(16 * 4096);
  fill_pattern(buffer.sub(0, 8 * 4096), 1, 0);
  fill_pattern(buffer.sub(8 * 4096, 8 * 4096), 2, 0);
  const Event stored = Event::all({queue.write(one, 0, buffer.sub(0, 8 * 4096)),
                                   queue.write(two, 0, buffer.sub(8 * 4096, 8 * 4096))});
  const AlignedBuffer back(16 * 4096);
  const Event loaded = Event::all({queue.read(two, 0, back.sub(0, 8 * 4096), stored),
                                   queue.read(one, 0, back.sub(8 * 4096, 8 * 4096), stored)});
  EXPECT_TRUE(platform->wait(loaded, seconds(1)).ok());
  EXPECT_TRUE(is_pattern(back.sub(0, 8 * 4096), 2, 0));
  EXPECT_TRUE(is_pattern(back.sub(8 * 4096, 8 * 4096), 1, 0));
}

TEST(Simulation, ADeadlockIsToldAtOnceWithTheFrontOfEachQueue) {
  const auto platform = Platform::simulate();
  IoQueue& queue = *platform->queue_for("/disk").value();
  const File file = scratch_file(queue, "/disk", 4096);
  const AlignedBuffer buffer(4096);
  const Gate never("somebody else");
  std::string text;
  const Event updated = platform->optimizer_lane().run(noting(text, 'u'), never.event());
  const Event stored = queue.write(file, 0, buffer.bytes(), updated);
  const Status how = platform->wait(stored, kForever);
  EXPECT_EQ(how.code(), Code::timeout);
  for (const char* part : {"deadlock", "front 'task' waits for somebody else",
                           "parked first: write of scratch file in /disk at 0, 4096 bytes, waits "
                           "for optimizer"})
    EXPECT_NE(how.message().find(part), std::string::npos) << how.message();
  never.open();
  EXPECT_TRUE(platform->wait(stored, seconds(1)).ok());
}

TEST(Simulation, AVirtualDeadlineEndsAWaitThere) {
  const auto platform = Platform::simulate();
  Task slow;
  slow.at_least = seconds(10);
  const Event event = platform->copy_lane().run(std::move(slow));
  const Status how = platform->wait(event, seconds(1));
  EXPECT_EQ(how.code(), Code::timeout);
  EXPECT_EQ(platform->clock().now(), seconds(1));
  EXPECT_TRUE(platform->wait(event, seconds(9)).ok());
  EXPECT_EQ(platform->clock().now(), seconds(10));
}

TEST(Simulation, AFullDiskIsToldWhenAFileIsOpened) {
  SimulationOptions options;
  options.disk_bytes = 10'000;
  const auto platform = Platform::simulate(options);
  IoQueue& queue = *platform->queue_for("/disk").value();
  FileSpec spec;
  spec.path = "/disk";
  spec.size = 20'000;
  EXPECT_EQ(queue.open_file(spec).status().code(), Code::out_of_space);
}

// Changes memory while it is being written, and tells whether that was seen in the file.
bool early_change_is_seen(std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  const auto platform = Platform::simulate(options);
  IoQueue& queue = *platform->queue_for("/disk").value();
  const File file = scratch_file(queue, "/disk", 4096);
  const AlignedBuffer buffer(4096);
  fill_pattern(buffer.bytes(), 1, 0);
  const Event stored = queue.write(file, 0, buffer.bytes());
  Task spoil;
  spoil.at_least = std::chrono::microseconds(20);
  spoil.body = [bytes = buffer.bytes()] {
    fill_pattern(bytes, 2, 0);
    return Status();
  };
  const Event spoiled = platform->copy_lane().run(std::move(spoil));
  const AlignedBuffer back(4096);
  const Event loaded = queue.read(file, 0, back.bytes(), Event::all({stored, spoiled}));
  EXPECT_TRUE(platform->wait(loaded, seconds(1)).ok());
  return !is_pattern(back.bytes(), 1, 0);
}

TEST(Simulation, MemoryLetGoTooSoonIsSeenForSomeSeeds) {
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) seen += early_change_is_seen(seed) ? 1 : 0;
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, 20);
}

TEST(Simulation, LanesMayGoInAnyOrder) {
  const auto platform = Platform::simulate();
  auto first = platform->device().open_stream("first");
  auto second = platform->device().open_stream("second");
  const Event in_first = first->occupy(milliseconds(1), "kernel");
  const Event in_second = second->occupy(milliseconds(1), "kernel", in_first);
  first.reset();
  EXPECT_EQ(platform->wait(in_second, seconds(1)).code(), Code::cancelled);
  second.reset();
  std::string text;
  EXPECT_TRUE(platform->wait(platform->copy_lane().run(noting(text, 'a')), seconds(1)).ok());
}

TEST(Simulation, IsDestroyedWithEverythingInFlight) {
  std::vector<Event> events;
  const AlignedBuffer buffer(64 * 4096);
  {
    const auto platform = Platform::simulate();
    IoQueue& queue = *platform->queue_for("/disk").value();
    const File file = scratch_file(queue, "/disk", 64 * 4096);
    Event last;
    for (std::size_t i = 0; i < 64; ++i) {
      events.push_back(queue.write(file, i * 4096, buffer.sub(i * 4096, 4096), last));
      if (i % 8 == 7) last = events[i - 4];
    }
    EXPECT_TRUE(platform->wait(events[10], seconds(1)).ok());
  }
  for (const Event& event : events) EXPECT_TRUE(event.done());
}

// Work in a random but legal order: what it follows was queued before it.
TEST(Simulation, WorkQueuedInDependencyOrderNeverDeadlocks) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SimulationOptions options = plain_rates(seed);
    options.queue.in_flight_chunks = 2;
    options.queue.chunk_bytes = 4096;
    const auto platform = Platform::simulate(options);
    IoQueue& queue = *platform->queue_for("/disk").value();
    const File file = scratch_file(queue, "/disk", 16 * 4096);
    const AlignedBuffer buffer(16 * 4096);
    std::mt19937_64 random(seed);
    std::vector<Event> events(1);
    std::string text;
    for (int i = 0; i < 60; ++i) {
      const Event after =
          Event::all({events[random() % events.size()], events[random() % events.size()]});
      const std::size_t at = random() % 12 * 4096;
      switch (random() % 4) {
        case 0:
          events.push_back(queue.read(file, at, buffer.sub(at, 4 * 4096), after));
          break;
        case 1:
          events.push_back(queue.write(file, at, buffer.sub(at, 4 * 4096), after));
          break;
        case 2:
          events.push_back(platform->copy_lane().run(noting(text, 'c'), after));
          break;
        default:
          events.push_back(platform->optimizer_lane().run(noting(text, 'u'), after));
      }
    }
    const Status how = platform->wait(Event::all(events), seconds(1));
    EXPECT_TRUE(how.ok()) << "seed " << seed << ": " << how.message();
  }
}

// A read, a task that takes a millisecond more than it does, and a write of `size` each, 8 times
// over the same memory. Gives the virtual time.
Nanoseconds time_of_chain(const SimulationOptions& options, std::uint64_t size, int& bodies) {
  const auto platform = Platform::simulate(options);
  IoQueue& queue = *platform->queue_for("/disk").value();
  const File file = scratch_file(queue, "/disk", size);
  const Memory memory = platform->device().allocate(Home::host, size).value();
  Event last;
  for (int i = 0; i < 8; ++i) {
    Task task;
    task.at_least = milliseconds(1);
    task.body = [&bodies] {
      ++bodies;
      return Status();
    };
    const Event loaded = queue.read(file, 0, memory.view().bytes(), last);
    const Event worked = platform->optimizer_lane().run(std::move(task), loaded);
    last = queue.write(file, 0, memory.view().bytes(), worked);
  }
  EXPECT_TRUE(platform->wait(last, seconds(7'200)).ok());
  return platform->clock().now();
}

TEST(Simulation, ADryRunTakesTheSameTimeAndDoesNothing) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SimulationOptions options = plain_rates(seed);
    options.disk_latency = std::chrono::microseconds(80);
    int bodies = 0;
    const Nanoseconds wet = time_of_chain(options, kMiB, bodies);
    EXPECT_EQ(bodies, 8);
    options.dry = true;
    EXPECT_EQ(time_of_chain(options, kMiB, bodies), wet) << seed;
    EXPECT_EQ(bodies, 8);
  }
}

TEST(Simulation, ADryRunMayBeLargerThanAnyMachine) {
  SimulationOptions options = plain_rates(1);
  options.dry = true;
  options.disk_bytes = 64 * 1024 * kGiB;
  options.queue.chunk_bytes = kGiB;
  options.queue.in_flight_bytes = 4 * kGiB;
  int bodies = 0;
  const Nanoseconds time = time_of_chain(options, 256 * kGiB, bodies);
  EXPECT_NEAR(std::chrono::duration<double>(time).count(), 16 * 274.877906944 + 0.008, 0.001);
  const auto platform = Platform::simulate(options);
  const Result<Memory> above = platform->device().allocate(Home::device, 512 * kGiB);
  ASSERT_TRUE(above.ok()) << above.status().to_string();
  EXPECT_EQ(above->view().home, Home::device);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(above->view().data) % (2 * kMiB), 0u);
}

}  // namespace
}  // namespace headrace
