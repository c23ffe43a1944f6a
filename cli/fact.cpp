#include "cli/fact.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace headrace::cli {

Verdict worst(std::span<const Fact> facts) {
  Verdict found = Verdict::ok;
  for (const Fact& fact : facts) found = std::max(found, fact.verdict);
  return found;
}

std::string name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warn:
      return "warn";
    case Verdict::fail:
      break;
  }
  return "fail";
}

std::string text_of(std::span<const Fact> facts) {
  std::string text;
  for (const Fact& fact : facts) {
    const std::string mark = fmt::format("[{}]", name_of(fact.verdict));
    fmt::format_to(std::back_inserter(text), "{:<6} {:<10} {}\n", mark, fact.name, fact.text);
    if (!fact.next.empty()) fmt::format_to(std::back_inserter(text), "{:18}-> {}\n", "", fact.next);
  }
  return text;
}

}  // namespace headrace::cli
