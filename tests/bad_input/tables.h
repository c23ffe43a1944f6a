// Everything that somebody may get wrong, in tables: what is done, the answer's code, and what its
// message must speak of: the thing, the numbers, the next step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/runtime/wrong_calls.h"

namespace headrace::bad_input {

using Mentions = std::vector<std::string>;

// An engine that must not come to be: refused when it is opened, or sealed.
struct Configuration {
  const char* what;
  std::function<void(EngineOptions&)> change;
  Code code;
  Mentions mentions;
};

struct BadTensor {
  TensorSpec spec;
  Mentions mentions;
};

enum class Program : std::uint8_t { headrace, train_gpt };

// Run in a folder of its own, which holds text.txt, a file; link, a link to a folder; other, a
// folder with something in it.
struct CommandLine {
  Program program;
  std::string arguments;
  int exit_code;
  Mentions mentions;
};

std::vector<small::Wrong> calls();            // of a sealed engine of the small model
std::vector<Configuration> configurations();  // of the small model on a simulated platform
std::vector<Configuration> places();          // on the machine's own file systems
std::vector<BadTensor> tensors();             // after "first", of 10 elements
std::vector<CommandLine> command_lines();

}  // namespace headrace::bad_input
