// What `headrace doctor` says: one fact of this machine each, how good it is, and what to type
// next.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace headrace::cli {

// warn: headrace works, but slower or with less; fail: it cannot work like this.
enum class Verdict : std::uint8_t { ok, warn, fail };

using Value = std::variant<bool, std::uint64_t, double, std::string>;

struct Fact {
  Verdict verdict = Verdict::ok;
  std::string name = {};                                   // "memory"
  std::string text = {};                                   // for people
  std::string next = {};                                   // a command or an advice; empty when ok
  std::vector<std::pair<std::string, Value>> values = {};  // for programs
};

// The worst of all.
Verdict worst(std::span<const Fact> facts);

// "ok", "warn", "fail".
std::string name_of(Verdict verdict);

// A line per fact, advice below it.
std::string text_of(std::span<const Fact> facts);

// {"schema": "headrace.doctor/1", "version", "verdict",
//  "facts": [{"name", "verdict", "text", "next", "values": {...}}]}
std::string json_of(std::span<const Fact> facts);

}  // namespace headrace::cli
