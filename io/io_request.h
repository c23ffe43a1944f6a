// IoRequest: one read, write or sync, from the call until its event.
//
// Made by a caller, then touched by its queue's driver alone.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "io/event_source.h"
#include "io/io_queue.h"

namespace headrace {

// What a request moves.
struct IoWork {
  // "read of FILE at 4096, 8192 bytes"
  std::string describe() const;

  Direction direction = Direction::read;
  File file;
  std::uint64_t offset = 0;
  std::size_t size = 0;
};

const char* name_of(Direction direction) noexcept;  // a literal

struct IoRequest;

// A request goes from list to list: it is allocated once, and keeps its address.
using IoRequests = std::list<IoRequest>;

struct IoRequest : IoWork {
  explicit IoRequest(EventSource end) : source(std::move(end)) {}
  IoRequest(const IoRequest&) = delete;
  IoRequest& operator=(const IoRequest&) = delete;

  IoClass io_class() const noexcept {
    return direction == Direction::read ? tag.io_class : IoClass::write;
  }
  const Check& check() const noexcept { return (whole ? *whole : *this).tag.check; }
  // Of the whole, where this one begins.
  std::uint64_t at() const noexcept { return whole ? offset - whole->offset : 0; }
  // The failure of the lowest offset stays. True: it is the first one.
  bool fail(Status why, std::uint64_t at);

  // Constant once queued, as the work.
  IoRequests::iterator self;   // in whichever list has it
  IoRequest* whole = nullptr;  // of which it is a part; null: of none
  std::uint64_t id = 0;        // of its queue, in the order of the calls
  std::byte* data = nullptr;
  IoTag tag;
  EventSource source;  // a part's is that of the whole
  Nanoseconds queued_at{0};

  Event after;           // while parked
  std::size_t open = 0;  // how many operations of `after` are; of a whole: how many parts

  // Progress.
  std::size_t cut = 0;   // bytes of it that are in chunks
  bool all_cut = false;  // nothing is left to send
  unsigned in_flight = 0;
  std::uint64_t moved = 0;  // bytes, with those of a second reading
  std::optional<Nanoseconds> started_at;
  bool read_again = false;
  bool redone = false;

  Status failure;                               // of the lowest offset so far
  std::uint64_t failed_at = ~std::uint64_t{0};  // which is this
};

// One, in a list of its own.
IoRequests new_request(EventSource source);
// That one alone, out of the list that has it.
IoRequests take(IoRequests& from, IoRequests::iterator at);
// What a read whose check looks at less than all of it is done as, in order. Empty: as it is.
IoRequests parts_of(IoRequest& whole);

}  // namespace headrace
