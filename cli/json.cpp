// The JSON of every command: the only file of cli/ that sees the JSON library.
#include <nlohmann/json.hpp>

#include "cli/fact.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Fact& fact) {
  Json values = Json::object();
  for (const auto& [key, value] : fact.values) {
    std::visit([&values, &key = key](const auto& content) { values[key] = content; }, value);
  }
  return {{"name", fact.name},
          {"verdict", name_of(fact.verdict)},
          {"text", fact.text},
          {"next", fact.next},
          {"values", values}};
}

}  // namespace

std::string json_of(std::span<const Fact> facts) {
  Json json = {{"schema", "headrace.doctor/1"},
               {"version", HEADRACE_VERSION},
               {"verdict", name_of(worst(facts))}};
  json["facts"] = Json::array();
  for (const Fact& fact : facts) json["facts"].push_back(to_json(fact));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace headrace::cli
