// The command line of `headrace bench ...`.
#pragma once

namespace CLI {
class App;
}

namespace headrace::cli {

// Adds the command and those below it; `code` is what the process ends with.
void add_bench(CLI::App& app, int& code);

}  // namespace headrace::cli
