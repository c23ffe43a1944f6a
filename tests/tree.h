// The project's own sources as text, for the tests that look at the tree itself.
//
// Reads HEADRACE_SOURCE_DIR; a file that cannot be read is an empty one.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::tree {

inline constexpr std::string_view kFolders[] = {"optim_cpu", "io",  "tiers",    "runtime",
                                                "bench",     "cli", "examples", "tests"};

// A source of ours: its path from the root ("io/status.h") and its text.
struct Source {
  std::string path;
  std::string text;

  bool header() const { return path.ends_with(".h"); }
  // The first part of the path: "io".
  std::string folder() const { return path.substr(0, path.find('/')); }
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Every .h and .cpp of the project, in order of paths.
inline std::vector<Source> sources() {
  const std::filesystem::path root = HEADRACE_SOURCE_DIR;
  std::vector<Source> found;
  for (const std::string_view folder : kFolders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::filesystem::path& path = entry.path();
      if (path.extension() != ".h" && path.extension() != ".cpp") continue;
      found.push_back({path.lexically_relative(root).string(), read_text(path)});
    }
  }
  std::ranges::sort(found, {}, &Source::path);
  return found;
}

}  // namespace headrace::tree
