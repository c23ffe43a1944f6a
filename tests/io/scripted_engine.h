// An engine that the test plays by hand: it keeps what was submitted, and completes what it is told
// to. Its files are names without bytes. For queues that are pumped.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "io/io_engine.h"

namespace headrace {

class ScriptedEngine : public IoEngine {
 public:
  std::string describe() const override { return "scripted"; }
  Status start(int) override { return how_it_starts; }
  bool stop(Nanoseconds) override { return stops; }
  bool submit(const Transfer& transfer) override {
    if (in_flight.size() >= most_in_flight) return false;
    submitted.push_back(transfer);
    in_flight.push_back(transfer);
    return true;
  }
  void wait(std::vector<Completion>& completions, Nanoseconds) override {
    completions.insert(completions.end(), completed_.begin(), completed_.end());
    completed_.clear();
  }
  Nanoseconds due() const override { return completed_.empty() ? kForever : Nanoseconds(0); }
  Status register_memory(Bytes) override {
    calls.push_back("register");
    return {};
  }
  void unregister_memory(Bytes) override { calls.push_back("unregister"); }
  Result<OpenFile> open_file(const FileSpec& spec) override {
    return OpenFile{.handle = next_handle_++,
                    .size = spec.size,
                    .alignment = std::max(1U, spec.alignment),
                    .direct = spec.direct,
                    .name = spec.path.string()};
  }
  void close_file(const OpenFile& file) override { closed.push_back(file.name); }

  // Ends the transfer in flight at `place` (0: submitted first), moved whole or with `result`.
  void complete(std::size_t place) { complete(place, static_cast<std::int64_t>(at(place).size)); }
  void complete(std::size_t place, std::int64_t result) {
    completed_.push_back({at(place).token, result});
    in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(place));
  }
  const Transfer& at(std::size_t place) const {
    HEADRACE_CHECK(place < in_flight.size());
    return in_flight[place];
  }

  // What the test sets, and what it sees.
  Status how_it_starts;
  bool stops = true;
  std::size_t most_in_flight = 1000;
  std::vector<Transfer> submitted;
  std::deque<Transfer> in_flight;
  std::vector<std::string> calls;
  std::vector<std::string> closed;

 private:
  std::vector<Completion> completed_;
  int next_handle_ = 0;
};

}  // namespace headrace
