// Drive: an engine around a faulty one around a simulated one. Strikes transfers as a program says,
// tells files of state (without a name) from those of checkpoints, and can lose its process: from
// then on nothing is done any more and every call fails.
//
// All drives of a platform share one Trouble, which the run looks at after each operation. One
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/faults.h"

namespace headrace::simulation {

enum class FileKind : std::uint8_t { state, checkpoint };
inline constexpr std::size_t kFileKinds = 2;

// What strikes: transfers of `fault.direction` on files of `files`, beginning `fault.first` after
// the next one, `fault.times` of them in a row; its `every` is not used.
struct Strike {
  FileKind files = FileKind::state;
  Fault fault;
};
std::string to_string(const Strike& strike);

class Trouble {
 public:
  // Delays beyond `deadline` make calls fail, shorter ones do not.
  // What a reusable slab reads of its own when it is opened is not read again.
  Trouble(Nanoseconds deadline, bool reusable) : deadline_(deadline), reusable_(reusable) {}

  void arm(const Strike& strike);
  // The process is gone at the call number `calls` from now on; 0: at once.
  void crash_in(std::uint64_t calls);
  bool crashed() const noexcept { return crashed_; }

  // Strikes so far that may have made a call fail, or may make one fail later.
  std::uint64_t hard() const noexcept { return hard_; }
  // Something never ends, or later than anybody waits: the platform is not what it was.
  bool stuck() const noexcept { return stuck_; }
  // A file of a checkpoint was written with other bytes than were said.
  std::uint64_t checkpoints_damaged() const noexcept { return damaged_; }

  std::uint64_t state_damaged() const noexcept { return state_damaged_; }

  // For drives.
  bool crashes_now();  // counts a call
  std::optional<Fault> next(FileKind files, Direction direction);

 private:
  struct Armed {
    Strike strike;
    std::uint64_t from;
    std::uint64_t left;
  };
  std::uint64_t& seen(FileKind files, Direction direction) {
    return seen_[static_cast<std::size_t>(files)][static_cast<std::size_t>(direction)];
  }
  void judge(const Strike& strike);

  const Nanoseconds deadline_;
  const bool reusable_;
  std::vector<Armed> armed_;
  std::array<std::array<std::uint64_t, 3>, kFileKinds> seen_{};
  std::optional<std::uint64_t> calls_left_;
  bool crashed_ = false;
  bool stuck_ = false;
  std::uint64_t hard_ = 0;
  std::uint64_t flips_ = 0;  // of state, as it was read
  std::uint64_t damaged_ = 0;
  std::uint64_t state_damaged_ = 0;
};

std::unique_ptr<IoEngine> open_drive(std::unique_ptr<IoEngine> disk, Clock& clock,
                                     std::shared_ptr<Trouble> trouble);

}  // namespace headrace::simulation
