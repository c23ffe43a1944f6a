// Saving and loading: the walk over shards and tensors. The folder and the manifest are
// checkpoint_folder.h and checkpoint_format.h.
//
// Both go through the same slots, lane and queues as the step, and through a few staging blocks of
// their own: memory is bounded whatever the model's size. They take the engine's mutex themselves.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/parts.h"

namespace headrace {

// Memory that values pass through on their way to a checkpoint. Blocks of a file are written two
// at once: on a fast drive, writes of 1 MiB beside reads of 2 MiB took 10 % longer.
constexpr std::uint64_t kStagingBlocks = 5;
constexpr std::uint64_t kStagingBytes = 2 * kMiB;

Status save(EngineParts& parts, const std::filesystem::path& folder, ConstBytes extra);
// Gives the caller's own bytes back. The engine is poisoned when it fails after the verification.
Result<std::vector<std::byte>> load(EngineParts& parts, const std::filesystem::path& folder);

}  // namespace headrace
