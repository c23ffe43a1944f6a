// What completions mean: short and refused transfers, failures, checks.
#include "io/io_schedule.h"

#include <cerrno>

#include "tests/io/queue_by_hand.h"

namespace headrace {
namespace {

using IoScheduleTest = QueueByHand;

TEST_F(IoScheduleTest, ShortReadIsContinued) {
  options.chunk_bytes = 4 * kBlock;
  open();
  const Event event = read(4);
  pump();
  engine->complete(0, kBlock);
  pump();
  ASSERT_EQ(engine->in_flight.size(), 1u);
  EXPECT_EQ(engine->at(0).offset, kBlock);
  EXPECT_EQ(engine->at(0).data, buffer.bytes().data() + kBlock);
  EXPECT_EQ(engine->at(0).size, 3 * kBlock);
  run_out();
  EXPECT_TRUE(event.status().ok());
  EXPECT_EQ(queue->usage().read_bytes, 4 * kBlock);
}

TEST_F(IoScheduleTest, ShortWriteIsContinued) {
  options.chunk_bytes = 4 * kBlock;
  open();
  const Event event = write(4);
  pump();
  engine->complete(0, 3 * kBlock);
  run_out();
  EXPECT_TRUE(event.status().ok());
  EXPECT_EQ(submitted(), "write 0, write 12288");
  EXPECT_EQ(queue->usage().written_bytes, 4 * kBlock);
}

TEST_F(IoScheduleTest, AnAdvanceIsRoundedDownToTheAlignmentInBothDirections) {
  options.chunk_bytes = 4 * kBlock;
  open();
  const Event both = Event::all({read(4), write(4)});
  pump();
  engine->complete(0, 2 * kBlock + 100);
  engine->complete(0, 2 * kBlock + 100);
  pump();
  EXPECT_EQ(submitted(), "read 0, write 0, read 8192, write 8192");
  run_out();
  EXPECT_TRUE(both.status().ok());
}

TEST_F(IoScheduleTest, NoProgressOnceIsTriedAgainTwiceIsAnError) {
  const Event once = write(1);
  pump();
  engine->complete(0, 0);
  run_out();
  EXPECT_TRUE(once.status().ok());
  const Event twice = write(1);
  pump();
  engine->complete(0, 100);
  pump();
  engine->complete(0, 100);
  pump();
  EXPECT_EQ(twice.status().code(), Code::io);
  EXPECT_NE(twice.status().message().find("write of file at 0, 4096 bytes: 100 moved, twice"),
            std::string::npos)
      << twice.status().message();
}

TEST_F(IoScheduleTest, APartOfABlockReadTwiceIsTheEndOfTheFile) {
  options.chunk_bytes = 4 * kBlock;
  open();
  const Event twice = read(2);
  pump();
  engine->complete(0, kBlock + 100);
  pump();
  engine->complete(0, 100);
  pump();
  engine->complete(0, 100);
  pump();
  EXPECT_EQ(twice.status().code(), Code::corrupt);
  EXPECT_NE(twice.status().message().find("file ends at 4196, 3996 bytes before"),
            std::string::npos)
      << twice.status().message();
}

TEST_F(IoScheduleTest, ProgressInBetweenStartsTheCountAgain) {
  options.chunk_bytes = 4 * kBlock;
  open();
  const Event event = write(4);
  pump();
  for (const std::int64_t moved : {0, 4096, 0, 4096}) {
    engine->complete(0, moved);
    pump();
  }
  run_out();
  EXPECT_TRUE(event.status().ok());
}

TEST_F(IoScheduleTest, TheEndOfAFileIsCorruptionAndSaysWhere) {
  const Event event = queue->read(file, 2 * kBlock, memory(1));
  pump();
  engine->complete(0, 0);
  pump();
  EXPECT_EQ(event.status().code(), Code::corrupt);
  EXPECT_NE(event.status().message().find("file ends at 8192"), std::string::npos)
      << event.status().message();
}

TEST_F(IoScheduleTest, AnErrorNamesDirectionFileOffsetSizeAndErrno) {
  const Event event = queue->write(file, 3 * kBlock, memory(1));
  pump();
  engine->complete(0, -EIO);
  pump();
  EXPECT_EQ(event.status().code(), Code::io);
  EXPECT_EQ(event.status().message(),
            "write of file at 12288, 4096 bytes: Input/output error (errno 5)");
}

TEST_F(IoScheduleTest, AFullDiskIsOutOfSpace) {
  const Event event = write(1);
  pump();
  engine->complete(0, -ENOSPC);
  pump();
  EXPECT_EQ(event.status().code(), Code::out_of_space);
}

TEST_F(IoScheduleTest, SyncErrorsAreReported) {
  const Event event = queue->sync(file);
  pump();
  engine->complete(0, -EIO);
  pump();
  EXPECT_EQ(event.status().code(), Code::io);
}

TEST_F(IoScheduleTest, InterruptedTransfersAreSentAgain) {
  const Event event = read(1);
  for (const int error : {EINTR, EAGAIN, ECANCELED}) {
    pump();
    engine->complete(0, -error);
  }
  run_out();
  EXPECT_TRUE(event.status().ok());
  EXPECT_EQ(engine->submitted.size(), 4u);
}

TEST_F(IoScheduleTest, InterruptionsWithoutEndAreAnError) {
  const Event event = read(1);
  for (pump(); !engine->in_flight.empty(); pump()) {
    ASSERT_LE(engine->submitted.size(), 1000u);
    engine->complete(0, -EAGAIN);
  }
  EXPECT_EQ(event.status().code(), Code::io);
  EXPECT_EQ(engine->submitted.size(), 1000u);
}

TEST_F(IoScheduleTest, AFailedChunkStopsTheRestOfItsRequestOnly) {
  options.in_flight_chunks = 2;
  open();
  const Event failed = read(8);
  const Event other = queue->read(file, 16 * kBlock, memory(1));
  pump();
  engine->complete(0, -EIO);
  pump();
  EXPECT_FALSE(failed.done());  // a chunk of it is in flight
  run_out();
  EXPECT_EQ(failed.status().code(), Code::io);
  EXPECT_TRUE(other.status().ok());
  EXPECT_EQ(submitted(), "read 0, read 4096, read 65536");
}

TEST_F(IoScheduleTest, TheFailureReportedIsThatOfTheLowestOffset) {
  const Event event = read(3);
  pump();
  engine->complete(2, -EIO);
  engine->complete(0, -ENXIO);
  pump();
  engine->complete(0, -EACCES);
  pump();
  EXPECT_NE(event.status().message().find("errno 6"), std::string::npos)
      << event.status().message();
}

TEST_F(IoScheduleTest, AfterAFailureShortTransfersAreNotContinued) {
  options.chunk_bytes = 4 * kBlock;
  open();
  const Event event = read(8);
  pump();
  engine->complete(1, -EIO);
  pump();
  engine->complete(0, kBlock);
  pump();
  EXPECT_TRUE(engine->in_flight.empty());
  EXPECT_EQ(event.status().code(), Code::io);
}

TEST_F(IoScheduleTest, AnInterruptionAfterAFailureDoesNotReplaceIt) {
  const Event event = read(2);
  pump();
  engine->complete(1, -EIO);
  pump();
  engine->complete(0, -EINTR);
  pump();
  EXPECT_NE(event.status().message().find("errno 5"), std::string::npos)
      << event.status().message();
}

TEST_F(IoScheduleTest, ChunksThatWaitToBeSentAgainAreDroppedWithTheirRequest) {
  engine->most_in_flight = 2;
  const Event event = read(2);
  pump();
  engine->most_in_flight = 0;
  engine->complete(0, -EINTR);
  pump();  // it cannot be sent now
  engine->complete(0, -EIO);
  pump();
  EXPECT_NE(event.status().message().find("errno 5"), std::string::npos);
  engine->most_in_flight = 2;
  const Event next = read(1);
  run_out();
  EXPECT_TRUE(next.status().ok());
}

TEST_F(IoScheduleTest, WhatACheckRefusesIsReadOnceMore) {
  int looked = 0;
  IoTag tag;
  tag.check = [&looked](std::uint64_t at, ConstBytes bytes) {
    EXPECT_EQ(at, 0u);
    EXPECT_EQ(bytes.size(), 3 * kBlock);
    return ++looked == 1 ? Status(Code::corrupt, "wrong checksum") : Status();
  };
  const Event event = read(3, {}, tag);
  run_out();
  EXPECT_TRUE(event.status().ok());
  EXPECT_EQ(looked, 2);
  EXPECT_EQ(engine->submitted.size(), 6u);
  EXPECT_EQ(queue->usage().read_bytes, 6 * kBlock);
  EXPECT_EQ(queue->usage().operations, 1u);
}

TEST_F(IoScheduleTest, WhatACheckRefusesTwiceIsCorrupt) {
  IoTag tag;
  tag.check = [](std::uint64_t, ConstBytes) { return Status(Code::corrupt, "wrong checksum"); };
  const Event event = read(1, {}, tag);
  run_out();
  EXPECT_EQ(event.status().code(), Code::corrupt);
  EXPECT_EQ(event.status().message(), "read of file at 0, 4096 bytes, read twice: wrong checksum");
  EXPECT_EQ(engine->submitted.size(), 2u);
}

TEST_F(IoScheduleTest, AFailedReadIsNotChecked) {
  IoTag tag;
  tag.check = [](std::uint64_t, ConstBytes) -> Status {
    ADD_FAILURE() << "there is nothing to check";
    return {};
  };
  const Event event = read(1, {}, tag);
  pump();
  engine->complete(0, -EIO);
  pump();
  EXPECT_EQ(event.status().code(), Code::io);
}

TEST_F(IoScheduleTest, OneFailureLeavesTheOtherRequestsRight) {
  std::vector<Event> events;
  for (std::uint64_t i = 0; i < 10; ++i)
    events.push_back(queue->read(file, i * 4 * kBlock, buffer.sub(i * 4 * kBlock, 4 * kBlock)));
  pump();
  engine->complete(17, -EIO);  // of the fifth
  run_out();
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].status().ok(), i != 4) << i;
}

}  // namespace
}  // namespace headrace
