// IoQueue: reads and writes of files, as events.
//
// read() and write() may be called from any thread and never block. A request whose `after` is open
// is parked and holds nothing; requests that are ready are served round robin by class, in chunks
// cut evenly, within limits of bytes and chunks in flight. Short transfers are continued; an end of
// file is Code::corrupt; two attempts without progress are Code::io. The caller keeps the memory
// alive until the event. Destroying the queue ends what has not started with Code::cancelled and
// drains the rest, within `drain`; what the kernel still owns then stays its own, and its events
// never fire. Files may outlive the queue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "io/bytes.h"
#include "io/event.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "io/lane.h"
#include "io/trace.h"
#include "io/usage.h"

namespace headrace {

enum class IoClass : std::uint8_t { parameter_read, state_read, write };
constexpr std::size_t kIoClasses = 3;

// Looks at finished bytes of a read, which lie `at` in it. Refused: they are read once more, then
// Code::corrupt.
using Check = std::function<Status(std::uint64_t at, ConstBytes)>;

struct IoQueueOptions {
  std::string name = "nvme0";  // also the thread's name
  std::size_t chunk_bytes = 2 * kMiB;
  std::size_t in_flight_bytes = 16 * kMiB;
  unsigned in_flight_chunks = 64;
  Nanoseconds drain = std::chrono::seconds(30);
  bool dry = false;                // nothing is looked at: bytes are not there
  std::function<void()> on_start;  // on the driver's thread, first
  Clock* clock = nullptr;          // must outlive the queue; null: real time
  Trace* trace = nullptr;          // must outlive the queue
};

struct IoTag {
  IoClass io_class = IoClass::state_read;  // of reads; writes are always IoClass::write
  Owner owner = Owner::nobody;
  const char* name = nullptr;  // a literal, for the trace; null: "read", "write"
  Check check;
  std::size_t check_bytes = 0;  // what it is asked of at once, as they come; 0: all of them
  bool redo = false;  // a read or write that fails is done once more before it ends with its error
};

class IoQueue {
 public:
  // Starts the driver thread. Fails with what the engine's start says.
  static Result<std::unique_ptr<IoQueue>> open(std::unique_ptr<IoEngine> engine,
                                               IoQueueOptions options = {});
  // No thread: the simulated platform pumps it.
  static Result<std::unique_ptr<IoQueue>> open_manual(std::unique_ptr<IoEngine> engine,
                                                      IoQueueOptions options);
  ~IoQueue();
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  Result<File> open_file(const FileSpec& spec);
  // Offset, address and length must be multiples of the file's alignment: Code::invalid.
  Event read(const File& file, std::uint64_t offset, Bytes to, Event after = {}, IoTag tag = {});
  Event write(const File& file, std::uint64_t offset, ConstBytes from, Event after = {},
              IoTag tag = {});
  // fdatasync.
  Event sync(const File& file, Event after = {}, IoTag tag = {});
  // Makes transfers from this memory cheaper where possible; unregister before freeing it.
  Event register_memory(Bytes memory);
  Event unregister_memory(Bytes memory);

  // Ends what `owner` has queued and what has not started with Code::cancelled, not before what it
  // follows is over. Of a started request nothing more is sent; it ends when that in flight has.
  void cancel(Owner owner);
  IoEngine& folders() noexcept;  // for its folder calls
  const std::string& name() const noexcept;
  Usage usage() const;
  std::string describe() const;  // engine, requests parked, ready and in flight, the first ones

  // Manual queues only. pump() does all that can be done now; false: nothing could.
  bool can_pump() const;
  bool pump();
  Nanoseconds due() const;

 private:
  class Driver;
  explicit IoQueue(std::unique_ptr<Driver> driver);
  Event queue(Direction direction, const File& file, std::uint64_t offset, Bytes memory,
              Event after, IoTag tag);
  std::unique_ptr<Driver> driver_;
};

}  // namespace headrace
