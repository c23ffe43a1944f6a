// How a benchmark says where it is, and how it is ended before its end.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "io/status.h"

namespace headrace::bench {

// Called on the benchmark's own thread before each round, with where it is: "step.fp32, round 3". A
// status that is not ok ends the benchmark, which leaves no file behind and returns it.
using RoundWatch = std::function<Status(const std::string& where)>;

// `round` counts from 0. No watch: nothing happens.
Status before_round(const RoundWatch& watch, std::string_view what, std::size_t round);

}  // namespace headrace::bench
