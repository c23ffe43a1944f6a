// The folder of a checkpoint: how a save becomes visible at once and whole, or not at all.
//
// A folder holds `manifest` and the data file that it names. Its first save is made in a sibling,
// ".NAME.saving", which is renamed when all of it is on the drive; each later one writes data under
// a fresh name and renames a new manifest over the old one. So at any moment the folder is absent
// or holds one whole checkpoint, whatever fails. The old data keeps its space and gets the name of
// the next save's: that one writes over it, unless somebody reads it or has given it a second name.
// What a killed save has left is removed, or written over, by the next one; nothing with another
// name is ever touched. Links are not followed. The folder a save works in is locked meanwhile: a
// second save is refused, of any process.
//
// Used by one thread at a time; blocks in Platform::wait. Platform and queue outlive both classes.
#pragma once

#include <filesystem>
#include <memory>

#include "io/platform.h"
#include "runtime/checkpoint_format.h"

namespace headrace {

struct CheckpointOptions {
  Nanoseconds deadline = std::chrono::seconds(60);  // of each wait; of a sync: and 10 ns a byte
  Owner owner = Owner::nobody;                      // for IoQueue::cancel
  bool direct = false;  // data is written in multiples of kRunAlignment, past the page cache if
                        // that can be
};

// The queue of the drive that holds the folder, or will. Code::invalid: not even its parent exists.
Result<IoQueue*> queue_of_checkpoint(Platform& platform, const std::filesystem::path& folder);

class CheckpointWriter {
 public:
  // Removes leftovers, then reserves the space. `folder` is absent (its parent is not), empty, or a
  // checkpoint. Code::out_of_space before anything is written, with both sizes; Code::invalid when
  // something else is there; Code::locked while another save works there, naming its process; then,
  // as after every failure, the last checkpoint is whole.
  static Result<CheckpointWriter> create(Platform& platform, IoQueue& queue,
                                         const std::filesystem::path& folder, const Manifest& plan,
                                         CheckpointOptions options = {});
  CheckpointWriter(CheckpointWriter&&) noexcept;
  // Removes what was not committed. Writes to data() must be over, unless the process is to end.
  ~CheckpointWriter();

  // plan.data_bytes, zeros or those of an earlier save, to be filled. Not direct: at any offset and
  // size.
  const File& data() const noexcept;
  // Makes it the folder's checkpoint; once. `manifest` is the plan with checksums and steps.
  // Returns when all of it would survive a loss of power.
  Status commit(Manifest manifest);

 private:
  struct Save;
  explicit CheckpointWriter(std::unique_ptr<Save> save);
  std::unique_ptr<Save> save_;
};

class CheckpointReader {
 public:
  // Reads the manifest, and opens the data file, which stays readable when a save replaces it.
  // Code::invalid: no checkpoint there, or a link; Code::corrupt, as parse(), or data of another
  // size. The blocks are not checked.
  static Result<CheckpointReader> open(Platform& platform, IoQueue& queue,
                                       const std::filesystem::path& folder,
                                       CheckpointOptions options = {});

  const Manifest& manifest() const noexcept { return manifest_; }
  const File& data() const noexcept { return data_; }

 private:
  CheckpointReader(Manifest manifest, File data)
      : manifest_(std::move(manifest)), data_(std::move(data)) {}
  Manifest manifest_;
  File data_;
};

}  // namespace headrace
