// Reads whose check is asked of parts, as they come: they wait, are cancelled and end as one.
#include <cerrno>

#include "tests/io/queue_by_hand.h"

namespace headrace {
namespace {

using IoPartsTest = QueueByHand;

TEST_F(IoPartsTest, ACheckSeesEachPartAsItComesAndOnlyThatIsReadOnceMore) {
  std::vector<std::uint64_t> looked;
  IoTag tag;
  tag.check_bytes = 2 * kBlock;
  tag.check = [&](std::uint64_t at, ConstBytes bytes) {
    EXPECT_EQ(bytes.data(), buffer.bytes().data() + at);
    EXPECT_EQ(bytes.size(), at < 4 * kBlock ? 2 * kBlock : kBlock);
    looked.push_back(at);
    return looked.size() == 1 ? Status(Code::corrupt, "wrong checksum") : Status();
  };
  const Event event = read(5, {}, tag);
  pump();
  engine->complete(4);  // the third part, of one block
  pump();
  EXPECT_EQ(looked, std::vector<std::uint64_t>({4 * kBlock}));
  EXPECT_FALSE(event.done());
  run_out();
  EXPECT_TRUE(event.status().ok());
  EXPECT_EQ(looked, std::vector<std::uint64_t>({4 * kBlock, 0, 2 * kBlock, 4 * kBlock}));
  EXPECT_EQ(queue->usage().read_bytes, 6 * kBlock);
}

TEST_F(IoPartsTest, OfPartsThatFailTheFirstIsReported) {
  IoTag tag;
  tag.check_bytes = 2 * kBlock;
  tag.check = [](std::uint64_t at, ConstBytes) {
    return at == 4 * kBlock ? Status(Code::corrupt, "wrong checksum") : Status();
  };
  const Event event = read(6, {}, tag);
  pump();
  engine->complete(3, -EIO);  // the second part
  run_out();
  EXPECT_EQ(event.status().code(), Code::io);
  EXPECT_EQ(queue->usage().failed, 2u);
}

TEST_F(IoPartsTest, AfterAFailureNothingIsReadOrChecked) {
  const Event failed = read(1);
  pump();
  engine->complete(0, -EIO);
  IoTag tag;
  tag.check_bytes = kBlock;
  tag.check = [](std::uint64_t, ConstBytes) -> Status {
    ADD_FAILURE() << "there is nothing to check";
    return {};
  };
  const Event event = read(4, failed, tag);
  run_out();
  EXPECT_EQ(event.status().code(), Code::io);
  EXPECT_EQ(submitted(), "read 0");
}

TEST_F(IoPartsTest, WhatIsReadInPartsEndsWithTheLastOneThatWasSent) {
  options.in_flight_chunks = 2;
  open();
  IoTag tag = tagged(IoClass::state_read, Owner{1});
  tag.check = [](std::uint64_t, ConstBytes) { return Status(); };
  tag.check_bytes = kBlock;
  const Event event = read(4, {}, tag);
  pump();
  queue->cancel(Owner{1});
  pump();
  engine->complete(1);
  pump();
  EXPECT_FALSE(event.done()) << "the first part is in flight";
  engine->complete(0);
  pump();
  EXPECT_EQ(event.status().code(), Code::cancelled);
  EXPECT_EQ(submitted(), "read 0, read 4096");
}

}  // namespace
}  // namespace headrace
