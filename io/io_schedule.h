// IoSchedule: which chunk of which request goes to the engine next, and what its completion means.
//
// The pure half of an IoQueue: no thread, no engine, no clock. Only the queue's driver calls it,
// from one thread. Requests of one class are served in order; classes take turns, chunk by chunk.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "io/io_request.h"

namespace headrace {

class IoSchedule {
 public:
  explicit IoSchedule(const IoQueueOptions& limits);

  // Ready: what it follows is over. One with a failure, or nothing to move, ends at once.
  void add(IoRequests one);
  // What to submit now, or null: nothing, or the limits are reached. Stays until sent().
  const Transfer* next(Nanoseconds now);
  void sent();
  // A refused, short or failed transfer is sent again, continued or recorded.
  void complete(const Completion& completion);
  // Stops what `owner` (none: everybody) has not sent whole: it ends with `why`, unless something
  // of it fails in flight.
  void drop(std::optional<Owner> owner, const Status& why);
  // Of the requests of which nothing is in flight any more, well or failed, the one that ended
  // first, alone. Only if any has.
  IoRequests take_ended();
  bool any_ended() const noexcept { return !ended_.empty(); }
  // All that is left, with what the engine never gave back.
  IoRequests abandon();

  std::size_t requests() const noexcept { return requests_.size() + ended_.size(); }
  std::size_t chunks_in_flight() const noexcept { return chunks_in_flight_; }
  std::size_t bytes_in_flight() const noexcept { return bytes_in_flight_; }
  const IoRequest* front() const;  // in flight, if any is; null: none at all

 private:
  struct Chunk {
    IoRequest* request = nullptr;  // null: free
    Transfer transfer;
    unsigned without_progress = 0;  // times in a row
    unsigned refused = 0;           // EINTR and the like, in a row
  };
  bool fits(std::size_t bytes) const;
  std::size_t chunk_size(const IoRequest& request) const;
  bool cut_next(Nanoseconds now);
  void cut(IoRequest& request, std::size_t bytes);
  void refuse(std::uint64_t slot, int error);
  void shorten(std::uint64_t slot, std::size_t moved);
  void fail(std::uint64_t slot, Status why);
  bool stop(IoRequest& request);
  void release(std::uint64_t slot);
  void end_if_over(IoRequest& request);

  const std::size_t chunk_bytes_;
  const std::size_t most_bytes_;
  const std::size_t most_chunks_;
  IoRequests requests_;  // ready or in flight, in the order of becoming ready
  std::array<std::deque<IoRequest*>, kIoClasses> classes_;  // with something left to cut
  std::size_t turn_ = 0;
  std::vector<Chunk> chunks_;  // a transfer's token is its place
  std::vector<std::uint64_t> free_;
  std::deque<std::uint64_t> to_send_;  // cut, or to be sent again
  std::size_t chunks_in_flight_ = 0;   // with those to be sent
  std::size_t bytes_in_flight_ = 0;
  IoRequests ended_;
};

}  // namespace headrace
