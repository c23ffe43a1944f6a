// A record of what every queue did and when, written as Chrome trace JSON that Perfetto opens.
//
// Queues add spans from their own threads; spans of one track that overlap are moved to tracks of
// their own when the file is written. Off (a null Trace*) it costs nothing. Memory is bounded:
// past `max_spans` spans are counted and dropped, and the file says how many.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "io/clock.h"
#include "io/status.h"

namespace headrace {

struct Span {
  std::string_view track;  // in add(): any text; kept as a copy
  std::string_view name;
  Nanoseconds begin{0};
  Nanoseconds end{0};
  std::uint64_t bytes = 0;  // moved or touched; 0: not shown
};

class Trace {
 public:
  explicit Trace(std::size_t max_spans = 1'000'000) : max_spans_(max_spans) {}

  void add(const Span& span);
  std::size_t size() const;
  // Those that lie in part between the two times, in the order they were added. Their texts are the
  // trace's own.
  std::vector<Span> spans(Nanoseconds from, Nanoseconds to) const;
  // What was recorded so far. Fails with Code::io, naming the file.
  Status write(const std::filesystem::path& file) const;

 private:
  struct Record {
    std::uint32_t track;
    std::uint32_t name;
    Nanoseconds begin, end;
    std::uint64_t bytes;
  };
  std::uint32_t intern(std::string_view text);  // mutex_ held
  void write_spans(std::FILE* file) const;      // mutex_ held

  const std::size_t max_spans_;
  mutable std::mutex mutex_;
  std::vector<Record> records_;      // guarded by mutex_
  std::deque<std::string> strings_;  // guarded by mutex_; one that is there never moves
  std::uint64_t dropped_ = 0;        // guarded by mutex_
};

}  // namespace headrace
