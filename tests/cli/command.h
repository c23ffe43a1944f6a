// Runs the command line tool itself.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

namespace headrace::cli {

struct Outcome {
  int code;
  std::string output;
};

// In a shell, without input.
inline Outcome run(const std::string& command) {
  FILE* pipe = popen(("(" + command + ") 2>&1 </dev/null").c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  Outcome outcome{};
  std::array<char, 4096> part;
  while (const std::size_t count = fread(part.data(), 1, part.size(), pipe))
    outcome.output.append(part.data(), count);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

inline Outcome headrace(const std::string& arguments) {
  return run(HEADRACE_BINARY_DIR "/headrace " + arguments);
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace headrace::cli
