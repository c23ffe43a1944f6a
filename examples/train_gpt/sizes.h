// Sizes as people type them.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/engine.h"

namespace train_gpt {

// "64MiB", "1.5GB", "1e9", "4096": binary and decimal units, exact to the byte.
headrace::Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace train_gpt
