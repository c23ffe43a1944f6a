// Options that several commands have. App is CLI11's, which only the files that parse see.
#pragma once

#include <cstdint>
#include <string>

#include "bench/sizes.h"
#include "cli/outcome.h"
#include "io/status.h"

namespace headrace::cli {

inline constexpr const char* kJsonHelp =
    "Write the results there too; -: to standard output instead";

// A FILE that the command writes when it is done: one that it cannot write is refused before.
template <class App, class Target>
auto* add_output_file(App& command, const std::string& name, Target& file,
                      const std::string& help) {
  return command.add_option(name, file, help)->type_name("FILE")->check(cannot_write);
}

// The value, or CLI11's error of that type, which names the option.
template <class Error>
std::uint64_t value_of(const std::string& option, const Result<std::uint64_t>& parsed) {
  if (parsed.ok()) return *parsed;
  throw Error(option, std::string(parsed.status().message()));
}

// "64MiB", "1e9": bytes.
template <class Error, class App, class Target>
auto* add_size(App& command, const std::string& name, Target& target, const std::string& help) {
  const auto take = [name, &target](const std::string& text) {
    target = value_of<Error>(name, parse_size(text));
  };
  return command.template add_option_function<std::string>(name, take, help)->type_name("SIZE");
}

}  // namespace headrace::cli
