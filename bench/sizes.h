// Sizes and numbers as people type them: "64KiB", "1e9", "96MiB", "1.5 GB", "4M"; "7B".
//
// Pure, from any thread. Used by the command line for each one that it takes.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/status.h"

namespace headrace {

// A number, then nothing, B, or a unit in any case: KiB MiB GiB TiB are powers of 1024, and so, as
// in fio, are bare K M G T; KB MB GB TB are powers of 1000. The number may have a fraction or an
// exponent. `invalid`, naming the text, when it is anything else, negative, not a whole number of
// bytes, or beyond 2^63 - 1.
Result<std::uint64_t> parse_size(std::string_view text);

// How many of something: nothing, K, M, B or T after the number, in any case, are powers of 1000.
// Else the same.
Result<std::uint64_t> parse_count(std::string_view text);

}  // namespace headrace
