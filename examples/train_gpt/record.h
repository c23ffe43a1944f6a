// What a checkpoint carries of the run itself, beside the model's state: lines of "name value".
//
// A resumed run gives the same bits as an uninterrupted one only if all of it is the same again, so
// anything else is refused, by the name of the option to give.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "examples/train_gpt/options.h"

namespace train_gpt {

struct RunRecord {
  std::uint64_t step = 0;  // the last one that is in the checkpoint
  std::uint64_t seed = 0, accumulate = 0, layers = 0, width = 0, context = 0, batch = 0;
  std::uint64_t text = 0;  // its fingerprint
};

RunRecord record_of(const Options& options, std::uint64_t text_fingerprint, std::uint64_t step);

std::string to_text(const RunRecord& record);
// `corrupt` when a line is missing, unknown or no number.
headrace::Result<RunRecord> from_text(std::string_view text);
// `invalid` when this run would not go on where the saved one stopped.
headrace::Status same_run(const RunRecord& saved, const RunRecord& now);

}  // namespace train_gpt
