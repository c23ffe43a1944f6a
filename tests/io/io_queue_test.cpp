// Order, classes, chunks, limits and reports. Failures are in io_schedule_test.cpp, cancelling and
// closing in io_driver_test.cpp.
#include "io/io_queue.h"

#include "tests/io/queue_by_hand.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;

using IoQueueTest = QueueByHand;

TEST_F(IoQueueTest, AReadMovesWhatWasAskedFor) {
  const Event event = queue->read(file, 3 * kBlock, buffer.sub(kBlock, kBlock));
  pump();
  ASSERT_EQ(engine->in_flight.size(), 1u);
  const Transfer& transfer = engine->at(0);
  EXPECT_EQ(transfer.direction, Direction::read);
  EXPECT_EQ(transfer.handle, file.info().handle);
  EXPECT_EQ(transfer.offset, 3 * kBlock);
  EXPECT_EQ(transfer.data, buffer.bytes().data() + kBlock);
  EXPECT_EQ(transfer.size, kBlock);
  EXPECT_FALSE(event.done());
  run_out();
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(event.status().ok());
}

// With a queue that is first in, first out, this would be a deadlock: write 0 waits for an update
// that waits for read 3.
TEST_F(IoQueueTest, ARequestWhoseTimeHasNotComeIsOvertaken) {
  const Gate updated;
  const Event stored = write(1, updated.event());
  const Event loaded = read(1);
  run_out();
  EXPECT_TRUE(loaded.done());
  EXPECT_FALSE(stored.done());
  EXPECT_EQ(submitted(), "read 0");
  updated.open();
  run_out();
  EXPECT_TRUE(stored.done());
  EXPECT_EQ(submitted(), "read 0, write 0");
}

TEST_F(IoQueueTest, ParkedRequestsHoldNothing) {
  options.in_flight_chunks = 1;
  options.in_flight_bytes = kBlock;
  open();
  const Gate gate;
  std::vector<Event> parked;
  for (int i = 0; i < 50; ++i) parked.push_back(write(1, gate.event()));
  const Event ready = read(1);
  run_out();
  EXPECT_TRUE(ready.done());
  gate.open();
  run_out();
  EXPECT_TRUE(Event::all(parked).done());
}

TEST_F(IoQueueTest, WaitsForEveryOperationThatItFollows) {
  const Gate a;
  const Gate b;
  const Event event = read(1, Event::all({a.event(), b.event()}));
  a.open();
  run_out();
  EXPECT_TRUE(engine->submitted.empty());
  b.open();
  run_out();
  EXPECT_TRUE(event.done());
}

TEST_F(IoQueueTest, WhatFollowsAFailureNeverStartsAndEndsWithIt) {
  const Gate gate;
  const Event event = read(1, gate.event());
  gate.fail(Status(Code::device, "the update broke"));
  run_out();
  EXPECT_TRUE(engine->submitted.empty());
  EXPECT_EQ(event.status().message(), "the update broke");
  EXPECT_EQ(queue->usage().failed, 1u);
}

// It is not its own failure that it ends with: there is nothing to do once more.
TEST_F(IoQueueTest, WhatFollowsAFailureIsNotDoneOnceMoreEither) {
  const Gate gate;
  const Event written = write(1, gate.event(), {.redo = true});
  gate.fail(Status(Code::io, "the one before"));
  pump();
  EXPECT_TRUE(engine->in_flight.empty());
  ASSERT_TRUE(written.done());
  EXPECT_EQ(written.status().message(), "the one before");
}

TEST_F(IoQueueTest, FollowingOnlyTheMomentItStartsAfterAFailure) {
  const Gate gate;
  const Event event = read(1, gate.event().over());
  gate.fail(Status(Code::device, "the update broke"));
  run_out();
  EXPECT_TRUE(event.status().ok());
}

TEST_F(IoQueueTest, ARequestMayFollowAnotherOfTheSameQueue) {
  const Event stored = write(1);
  const Event loaded = read(1, stored);
  pump();
  EXPECT_EQ(submitted(), "write 0");
  run_out();
  EXPECT_TRUE(loaded.done());
}

TEST_F(IoQueueTest, ClassesTakeTurnsChunkByChunk) {
  options.in_flight_chunks = 1;
  open();
  const Event stored = write(3);
  const Event state = read(3, {}, tagged(IoClass::state_read));
  const Event param =
      queue->read(file, 32 * kBlock, memory(2), {}, tagged(IoClass::parameter_read));
  run_out();
  EXPECT_EQ(submitted(),
            "read 131072, read 0, write 0, read 135168, read 4096, write 4096, read 8192, "
            "write 8192");
  EXPECT_TRUE(Event::all({stored, state, param}).done());
}

TEST_F(IoQueueTest, OfWhatIsSentAtOnceEachClassGoesTogether) {
  options.in_flight_chunks = 4;
  open();
  const Event stored = write(3);
  const Event loaded = read(3);
  pump();
  EXPECT_EQ(submitted(), "read 0, read 4096, write 0, write 4096");
  run_out();
  EXPECT_TRUE(Event::all({stored, loaded}).done());
}

TEST_F(IoQueueTest, RequestsOfOneClassAreServedInOrder) {
  const Event first = read(2);
  const Event second = queue->read(file, 8 * kBlock, memory(1));
  run_out();
  EXPECT_EQ(submitted(), "read 0, read 4096, read 32768");
  EXPECT_TRUE(Event::all({first, second}).done());
}

TEST_F(IoQueueTest, ChunksAreEven) {
  options.chunk_bytes = 4 * kBlock;
  open();
  const Event event = read(9);  // 3 + 3 + 3, not 4 + 4 + 1
  pump();
  ASSERT_EQ(engine->in_flight.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(engine->at(i).size, 3 * kBlock);
  run_out();
  EXPECT_TRUE(event.done());
}

TEST_F(IoQueueTest, ChunksCoverARequestWhateverItsSize) {
  for (const std::size_t chunk : {1u, 3u, 7u, 4096u}) {
    options.chunk_bytes = chunk;
    open();
    const File bytewise = open_file("bytewise", 1);
    for (const std::size_t size : {1u, 2u, 7u, 20u}) {
      engine->submitted.clear();
      const Event event = queue->read(bytewise, 5, buffer.sub(1, size));
      run_out();
      EXPECT_TRUE(event.done());
      std::size_t covered = 0;
      for (const Transfer& transfer : engine->submitted) {
        EXPECT_EQ(transfer.offset, 5 + covered);
        EXPECT_EQ(transfer.data, buffer.bytes().data() + 1 + covered);
        EXPECT_LE(transfer.size, chunk);
        covered += transfer.size;
      }
      EXPECT_EQ(covered, size);
    }
  }
}

TEST_F(IoQueueTest, BytesInFlightAreLimited) {
  options.in_flight_bytes = 3 * kBlock + 1;
  open();
  const Event event = read(8);
  pump();
  EXPECT_EQ(engine->in_flight.size(), 3u);
  engine->complete(1);
  pump();
  EXPECT_EQ(engine->in_flight.size(), 3u);
  EXPECT_EQ(engine->submitted.size(), 4u);
  run_out();
  EXPECT_TRUE(event.done());
}

TEST_F(IoQueueTest, ChunksInFlightAreLimited) {
  options.in_flight_chunks = 2;
  open();
  const Event event = read(8);
  pump();
  EXPECT_EQ(engine->in_flight.size(), 2u);
  run_out();
  EXPECT_TRUE(event.done());
}

TEST_F(IoQueueTest, AChunkLargerThanTheLimitGoesAlone) {
  options.chunk_bytes = 8 * kBlock;
  options.in_flight_bytes = 2 * kBlock;
  open();
  const Event event = read(16);
  pump();
  EXPECT_EQ(engine->in_flight.size(), 1u);
  EXPECT_EQ(engine->at(0).size, 8 * kBlock);
  run_out();
  EXPECT_TRUE(event.done());
  EXPECT_EQ(engine->submitted.size(), 2u);
}

TEST_F(IoQueueTest, AFullEngineIsOfferedTheSameChunkAgain) {
  engine->most_in_flight = 1;
  const Event event = read(3);
  run_out();
  EXPECT_TRUE(event.done());
  EXPECT_EQ(submitted(), "read 0, read 4096, read 8192");
}

TEST_F(IoQueueTest, AnEventFiresOnlyWhenAllItsChunksHaveEnded) {
  const Event event = read(3);
  pump();
  engine->complete(2);
  engine->complete(0);
  pump();
  EXPECT_FALSE(event.done());
  engine->complete(0);
  pump();
  EXPECT_TRUE(event.done());
}

TEST_F(IoQueueTest, ZeroBytesAreANoOpThatStillFollows) {
  const Gate gate;
  const Event event = queue->read(file, 0, {}, gate.event());
  run_out();
  EXPECT_FALSE(event.done());
  gate.open();
  run_out();
  EXPECT_TRUE(event.status().ok());
  EXPECT_TRUE(engine->submitted.empty());
}

TEST_F(IoQueueTest, SyncFollowsWhatItIsToldTo) {
  const Event stored = write(1);
  const Event synced = queue->sync(file, stored);
  pump();
  EXPECT_EQ(submitted(), "write 0");
  engine->complete(0);
  pump();
  EXPECT_EQ(submitted(), "write 0, sync 0");
  EXPECT_FALSE(synced.done());
  run_out();
  EXPECT_TRUE(synced.done());
}

TEST_F(IoQueueTest, MisalignedArgumentsAreInvalidAndSayWhich) {
  const Event offset = queue->read(file, 100, memory(1));
  EXPECT_EQ(offset.status().code(), Code::invalid);
  EXPECT_NE(offset.status().message().find("read of file at 100, 4096 bytes"), std::string::npos)
      << offset.status().message();
  EXPECT_EQ(queue->read(file, 0, buffer.sub(0, 100)).status().code(), Code::invalid);
  EXPECT_EQ(queue->write(file, 0, buffer.sub(512, kBlock)).status().code(), Code::invalid);
  EXPECT_FALSE(queue->can_pump());
}

TEST_F(IoQueueTest, BeyondTheEndOfAScratchFileIsInvalid) {
  const Event event = queue->write(file, 1023 * kBlock, memory(2));
  EXPECT_EQ(event.status().code(), Code::invalid);
  EXPECT_EQ(queue->read(file, ~std::uint64_t{0} - kBlock + 1, memory(1)).status().code(),
            Code::invalid);
  EXPECT_EQ(queue->read(File(), 0, memory(1)).status().code(), Code::invalid);
}

TEST_F(IoQueueTest, WrongArgumentsEndNoSoonerThanWhatTheyFollow) {
  const Gate gate;
  const Event event = queue->read(file, 100, memory(1), gate.event());
  EXPECT_FALSE(event.done());
  gate.open();
  EXPECT_EQ(event.status().code(), Code::invalid);
}

TEST_F(IoQueueTest, MemoryIsRegisteredInTheOrderOfTheCalls) {
  const Event in = queue->register_memory(buffer.bytes());
  const Event out = queue->unregister_memory(buffer.bytes());
  EXPECT_FALSE(in.done());
  pump();
  EXPECT_TRUE(in.status().ok() && out.status().ok());
  EXPECT_EQ(engine->calls, (std::vector<std::string>{"register", "unregister"}));
}

TEST_F(IoQueueTest, AFileClosesWithItsLastCopyAndItsLastRequest) {
  File other = open_file("other");
  const ScriptedEngine* const seen = engine;
  const Event event = queue->read(other, 0, memory(1));
  other = {};
  pump();
  EXPECT_TRUE(seen->closed.empty());
  run_out();
  EXPECT_TRUE(event.done());
  EXPECT_EQ(seen->closed, std::vector<std::string>{"other"});
}

TEST_F(IoQueueTest, AFileMayOutliveItsQueue) {
  const File other = open_file("other");
  queue.reset();
  EXPECT_EQ(other.info().name, "other");
}

TEST_F(IoQueueTest, UsageTellsBytesAndWhomItWaitedFor) {
  const Gate gate("optimizer");
  const Event stored = write(2, gate.event());
  pump();
  clock.advance_to(milliseconds(5));
  gate.open();
  pump();
  clock.advance_to(milliseconds(9));
  run_out();
  EXPECT_TRUE(stored.done());
  const Event loaded = read(1);
  run_out();
  EXPECT_TRUE(loaded.done());
  const Usage usage = queue->usage();
  EXPECT_EQ(usage.name, "disk");
  EXPECT_EQ(usage.operations, 2u);
  EXPECT_EQ(usage.read_bytes, kBlock);
  EXPECT_EQ(usage.written_bytes, 2 * kBlock);
  EXPECT_EQ(usage.busy, milliseconds(4));
  EXPECT_EQ(usage.stalled, milliseconds(5));
  EXPECT_EQ(usage.waited_for.at("optimizer"), milliseconds(5));
}

TEST_F(IoQueueTest, EveryRequestThatStartedIsASpanOfTheTrace) {
  IoTag tag;
  tag.name = "load";
  const Event done = Event::all({read(4, {}, tag), write(1)});
  const Event skipped = read(1, Event::failed(Status(Code::io, "broken")));
  run_out();
  EXPECT_TRUE(done.done() && skipped.done());
  EXPECT_EQ(trace.size(), 2u);
}

TEST_F(IoQueueTest, DescribesTheOldestRequestAndWhatTheFirstParkedOneWaitsFor) {
  const Gate gate("optimizer");
  const Event parked = write(2, gate.event());
  const Event started = queue->read(file, kBlock, memory(1));
  pump();
  clock.advance_to(milliseconds(1500));
  const std::string text = queue->describe();
  EXPECT_NE(text.find("queue disk (scripted): 0 arriving, 1 parked, 1 started or ready, 1 chunks"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("queued 1.500 s ago: read of file at 4096, 4096 bytes"), std::string::npos)
      << text;
  EXPECT_NE(text.find("parked first: write of file at 0, 8192 bytes, waits for optimizer"),
            std::string::npos)
      << text;
  gate.open();
  run_out();
  EXPECT_TRUE(parked.done() && started.done());
}

}  // namespace
}  // namespace headrace
