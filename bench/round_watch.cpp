#include "bench/round_watch.h"

#include <fmt/format.h>

namespace headrace::bench {

Status before_round(const RoundWatch& watch, std::string_view what, std::size_t round) {
  return watch ? watch(fmt::format("{}, round {}", what, round + 1)) : Status();
}

}  // namespace headrace::bench
