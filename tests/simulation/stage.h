// Stage: the platform, the disk, the engine and the reference of one run, and how they go and come
// again: after a close, and after a crash of the process. What must be true is in run.cpp.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/simulated_disk.h"
#include "runtime/engine.h"
#include "tests/simulation/drive.h"
#include "tests/simulation/machine.h"
#include "tests/simulation/reference.h"

namespace headrace::simulation {

// A checkpoint that may be in the folder; `id` is what it gives back as the caller's own bytes.
struct Saved {
  std::uint64_t id = 0;
  Reference state;
  bool damaged = false;
};

class Stage {
 public:
  explicit Stage(const Machine& machine);
  ~Stage();

  // A platform on the disk, and an engine with the last checkpoint or the first weights.
  void open();
  // The next engine on the same platform.
  void open_engine();
  void close_engine();
  // The process has ended, and another one begins.
  void start_again();

  // The first one counts; none once the process is gone.
  void violate(std::string what);
  bool ended() const { return violation.has_value() || finished; }
  // A fault has struck that may explain a failure.
  bool excused() const { return trouble->stuck() || trouble->hard() > forgiven; }
  // Judges what a call said. `legal`: the code that it must be refused with, or ok. True: it did
  // what was asked.
  bool judge(const char* call, const Status& how, Code legal);

  // What a change has made of the state, when `done` is over well: a reusable slab may give any of
  // these back, from the last one that is known to be over on.
  void note_change(const Event& done);
  bool save();
  bool load();
  void check_everything();
  std::uint64_t held_bytes() const;
  // Memory that stays where it is until the platform is gone.
  std::vector<std::byte>& keep(std::vector<std::byte> bytes);

  const Machine& machine;
  std::optional<std::string> violation;
  bool finished = false;   // there is no way to go on
  bool refusing = false;   // poisoned: every call must say so
  bool abandoned = false;  // an engine could not be closed: its memory is not given back
  std::uint64_t forgiven = 0;
  std::uint64_t corrupt = 0, poisonings = 0, unbuildable = 0, reopened = 0;
  std::deque<std::vector<std::byte>> kept;
  std::shared_ptr<Trouble> trouble;
  std::unique_ptr<Platform> platform;
  std::unique_ptr<Stream> stream;  // the caller's own
  std::unique_ptr<Engine> engine;
  Reference reference;
  std::vector<Event> steps;  // whose end was not seen

 private:
  void open_platform();
  Status build();
  Status write_first_weights();
  void restore();
  bool take_up();  // what a slab has kept; false: there was none
  bool is_as_reference();
  bool slab_excused() const;
  bool checkpoint_damaged() const;

  const std::shared_ptr<SimulatedDisk> disk_;
  std::uint64_t platforms_ = 0;
  std::uint64_t folders_ = 0;  // where checkpoints go: a new one when one was damaged
  std::uint64_t last_id_ = 0;
  struct Change {
    Reference state;
    Event done;
  };
  std::deque<Change> changes_;  // of a reusable slab
  bool slab_damaged_ = false;   // its files were written with other bytes than were said
  std::vector<Saved> saved_;
  bool none_saved_ = true;  // the folder may hold none
};

}  // namespace headrace::simulation
