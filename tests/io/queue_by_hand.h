// A queue pumped by the test over an engine played by the test, in virtual time.
#pragma once

#include <gtest/gtest.h>

#include "io/io_queue.h"
#include "io/trace.h"
#include "tests/io/scripted_engine.h"
#include "tests/support/gate.h"
#include "tests/support/pattern.h"

namespace headrace {

class QueueByHand : public testing::Test {
 protected:
  static constexpr std::size_t kBlock = 4096;

  QueueByHand() {
    options.chunk_bytes = kBlock;
    options.in_flight_bytes = 1024 * kBlock;
    options.in_flight_chunks = 1000;
    open();
  }

  // Again, with the options as they are now.
  void open() {
    file = {};
    queue.reset();
    options.name = "disk";
    options.clock = &clock;
    options.trace = &trace;
    auto made = std::make_unique<ScriptedEngine>();
    engine = made.get();
    auto opened = IoQueue::open_manual(std::move(made), options);
    ASSERT_TRUE(opened.ok());
    queue = std::move(opened).value();
    file = open_file("file");
  }

  File open_file(const std::string& name, std::uint32_t alignment = kBlock) {
    FileSpec spec;
    spec.path = name;
    spec.size = 1024 * kBlock;
    spec.alignment = alignment;
    return queue->open_file(spec).value();
  }

  Bytes memory(std::size_t blocks) const { return buffer.sub(0, blocks * kBlock); }
  Event read(std::size_t blocks, Event after = {}, IoTag tag = {}) {
    return queue->read(file, 0, memory(blocks), std::move(after), std::move(tag));
  }
  Event write(std::size_t blocks, Event after = {}, IoTag tag = {}) {
    return queue->write(file, 0, memory(blocks), std::move(after), std::move(tag));
  }
  void pump() {
    while (queue->can_pump()) queue->pump();
  }
  // Ends all that is in flight, and what follows it, well.
  void run_out() {
    for (pump(); !engine->in_flight.empty(); pump()) engine->complete(0);
  }
  // "read 0, write 8192": what was submitted, in order.
  std::string submitted() const {
    std::string text;
    for (const Transfer& transfer : engine->submitted) {
      text += text.empty() ? "" : ", ";
      text += transfer.direction == Direction::read    ? "read "
              : transfer.direction == Direction::write ? "write "
                                                       : "sync ";
      text += std::to_string(transfer.offset);
    }
    return text;
  }
  static IoTag tagged(IoClass io_class, Owner owner = Owner::nobody) {
    IoTag tag;
    tag.io_class = io_class;
    tag.owner = owner;
    return tag;
  }

  Clock clock{Clock::Kind::simulated};
  Trace trace;
  IoQueueOptions options;
  ScriptedEngine* engine = nullptr;  // the queue's
  std::unique_ptr<IoQueue> queue;
  File file;
  AlignedBuffer buffer{64 * kBlock};
};

}  // namespace headrace
